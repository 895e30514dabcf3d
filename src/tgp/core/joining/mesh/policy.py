"""The access rules that a class's machines need in their tailnet, and no more: for Tailscale as grants, for Headscale
as ACLs, which all its releases read.

Made to be pasted into an existing policy, so it has comments; it never replaces that policy.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tgp.core.model.mesh import MeshSettings

OPERATOR_TAG = "tag:tgp-operator"
GPU_TAG = "tag:tgp-gpu"
CONTROL_PLANE_TAG = "tag:tgp-control-plane"
NODE_TAG = "tag:tgp-node"

API_SERVER, TRUSTD, APID, KUBELET = "tcp:6443", "tcp:50001", "tcp:50000", "tcp:10250"
FLANNEL = "udp:4789"  # VXLAN, as Talos sets it up


@dataclass(frozen=True, slots=True)
class MeshGrant:
    why: str
    src: tuple[str, ...]
    dst: tuple[str, ...]
    ports: tuple[str, ...]  # tcp:6443


@dataclass(frozen=True, slots=True)
class MeshPolicy:
    tag_owners: tuple[tuple[str, tuple[str, ...]], ...]
    grants: tuple[MeshGrant, ...]
    routes: tuple[tuple[str, tuple[str, ...]], ...] = ()  # approved automatically
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Names:
    """Tags of the other members of the tailnet."""

    operator: str = OPERATOR_TAG  # of the OAuth client
    control_plane: str = CONTROL_PLANE_TAG
    nodes: str = NODE_TAG  # the cluster's other nodes


def policy_for(settings: MeshSettings, names: Names = Names()) -> MeshPolicy:  # noqa: B008 - frozen
    tags = settings.tags or (GPU_TAG,)
    known = tuple(dict.fromkeys((names.control_plane, names.nodes)))
    others = tuple(tag for tag in known if tag not in tags)
    owners = {
        names.operator: (),
        **{tag: (names.operator,) for tag in tags if tag != names.operator},
        **dict.fromkeys(others, ()),
    }
    grants = (
        MeshGrant(
            "the kubelet joins, and the node requests its Talos certificate",
            tags,
            (names.control_plane,),
            (API_SERVER, TRUSTD),
        ),
        MeshGrant("logs, exec and metrics; talosctl", (names.control_plane,), tags, (KUBELET, APID)),
        MeshGrant("flannel: from pods on these machines to pods anywhere", tags, (*tags, *others), (FLANNEL,)),
        MeshGrant("flannel: from pods anywhere to pods on these machines", others, tags, (FLANNEL,)),
    )
    return MeshPolicy(
        tuple(owners.items()),
        grants,
        tuple((route, tags) for route in settings.advertise_routes),
        tuple(_notes(settings, names)),
    )


def as_grants(policy: MeshPolicy) -> str:
    """Tailscale's form."""
    return _written(policy, "grants", (_grant(grant) for grant in policy.grants))


def as_acls(policy: MeshPolicy) -> str:
    """Headscale's form: one rule per protocol, ports behind the destination."""
    return _written(policy, "acls", (rule for grant in policy.grants for rule in _acls(grant)))


def without_comments(text: str) -> dict[str, object]:
    """The same policy for a program that reads plain JSON."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("//")]
    found: dict[str, object] = json.loads(re.sub(r",(\s*[}\]])", r"\1", "\n".join(lines)))
    return found


# ----


def _notes(settings: MeshSettings, names: Names) -> Iterator[str]:
    if not settings.tags:
        yield f"The class gives its machines no tags: set spec.tailscaleConfig.tags to [{GPU_TAG}]."
    yield f"Control planes run Tailscale too, tagged {names.control_plane}; the cluster's other nodes: {names.nodes}."
    if settings.accept_routes:
        yield "The machines accept routes: also grant their tags the networks behind these routes, with the same ports."
    if any(tag == "tag:k8s" for tag in settings.tags):
        yield (
            "tag:k8s belongs to the Tailscale operator: give rented machines a "
            "tag of their own, apart from its proxies."
        )


def _grant(grant: MeshGrant) -> tuple[str, dict[str, object]]:
    return grant.why, {"src": grant.src, "dst": grant.dst, "ip": grant.ports}


def _acls(grant: MeshGrant) -> Iterator[tuple[str, dict[str, object]]]:
    by_protocol: dict[str, list[str]] = {}
    for port in grant.ports:
        protocol, _, number = port.partition(":")
        by_protocol.setdefault(protocol, []).append(number)
    for protocol, numbers in by_protocol.items():
        dst = [f"{tag}:{','.join(numbers)}" for tag in grant.dst]
        yield grant.why, {"action": "accept", "proto": protocol, "src": grant.src, "dst": dst}


def _written(policy: MeshPolicy, rules: str, items: Iterator[tuple[str, dict[str, object]]]) -> str:
    """JSON with comments and with commas behind the last items: parts can be pasted as they are."""
    lines = [f"// {note}" for note in policy.notes]
    lines += ["{", '  "tagOwners": {']
    lines += [f"    {_json(tag)}: {_json(owners)}," for tag, owners in policy.tag_owners]
    lines += ["  },", f'  "{rules}": [']
    for why, rule in items:
        lines += [f"    // {why}", f"    {_json(rule)},"]
    lines.append("  ],")
    if policy.routes:
        lines += ['  "autoApprovers": {', '    "routes": {']
        lines += [f"      {_json(route)}: {_json(tags)}," for route, tags in policy.routes]
        lines += ["    },", "  },"]
    return "\n".join([*lines, "}"]) + "\n"


def _json(value: object) -> str:
    return json.dumps(value)
