"""Machines you own as environment variables or `nodeGroups` of a settings file name them: one class and one pool.

    GPU_NODE_1_NAME=gpu-worker-1
    GPU_NODE_1_GPU_COUNT=4
    GPU_NODE_1_SCALE_UP_ENDPOINT=http://power-api/gpu-worker-1/start
    GPU_NODE_1_SCALE_DOWN_ENDPOINT=http://power-api/gpu-worker-1/stop

Any prefix will do. A prefix is one of ours if it has an endpoint or a count: what is half given is refused.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from tgp.api import cel
from tgp.api.common import OWNED_PROVIDER
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.pattern import matches
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL
from tgp.core.classes.power_hosts import HostRefused, HostRules, read

POWER_NODES = "power-nodes"  # the class, and the pool in the operator's namespace
KEPT_IN_STEP = "tgp.io/node-groups"  # annotation of both; without it they are a person's, and are left alone
NAME, GPU_COUNT, UP, DOWN = "_NAME", "_GPU_COUNT", "_SCALE_UP_ENDPOINT", "_SCALE_DOWN_ENDPOINT"
PARTS = {NAME: "name", GPU_COUNT: "gpuCount", UP: "scaleUpEndpoint", DOWN: "scaleDownEndpoint"}
MOST_GPUS = 1024
MOST_GROUPS = 256
LONGEST_NAME = 63
OF_OTHERS = frozenset({"NVIDIA"})  # prefixes of counts that images and other tools set


class BadNodeGroup(ValueError):
    """The text names each variable or field, and what would be right."""

    def __init__(self, *problems: tuple[str, str]) -> None:
        """Of each: the variable, the field or the machine, and what is wrong."""
        super().__init__("; ".join(f"{where}: {why}" for where, why in problems))
        self.problems = problems


class NodeGroup(msgspec.Struct, frozen=True, rename="camel"):
    """One machine."""

    name: str
    gpu_count: int
    scale_up_endpoint: str
    scale_down_endpoint: str


def of_environment(environ: Mapping[str, str], hosts: HostRules) -> tuple[NodeGroup, ...]:
    """In the order of their names. Raises BadNodeGroup."""
    found: dict[str, tuple[str, NodeGroup]] = {}
    for prefix in sorted(_prefixes(environ)):
        missing = [f"{prefix}{part}" for part in PARTS if not environ.get(f"{prefix}{part}")]
        if missing:
            raise BadNodeGroup((prefix, f"a machine needs all four variables; missing: {', '.join(missing)}"))
        said = {part: (f"{prefix}{part}", environ[f"{prefix}{part}"]) for part in PARTS}
        group = _group(said, hosts)
        if group.name in found:
            other = f"{found[group.name][0]}{NAME}"
            raise BadNodeGroup((f"{prefix}{NAME}", f"{other} names {group.name}, too; a machine has one prefix"))
        found[group.name] = (prefix, group)
    return tuple(group for _, (_, group) in sorted(found.items()))


def of_file(rows: object, where: str, hosts: HostRules) -> tuple[NodeGroup, ...]:
    """`nodeGroups` of a settings file. `where`: how messages call it. Raises BadNodeGroup."""
    if not isinstance(rows, list) or len(rows) > MOST_GROUPS:
        raise BadNodeGroup((where, f"not a list of up to {MOST_GROUPS} machines"))
    found: dict[str, NodeGroup] = {}
    for number, row in enumerate(rows):
        at = f"{where}[{number}]"
        if not isinstance(row, Mapping):
            raise BadNodeGroup((at, f"not a mapping with {', '.join(PARTS.values())}"))
        unknown = sorted(str(key) for key in row if key not in PARTS.values())
        missing = [field for field in PARTS.values() if row.get(field) in (None, "")]
        if unknown or missing:
            what = f"unknown: {', '.join(unknown)}" if unknown else f"missing: {', '.join(missing)}"
            raise BadNodeGroup((at, f"a machine has {', '.join(PARTS.values())}; {what}"))
        group = _group({part: (f"{at}.{field}", str(row[field])) for part, field in PARTS.items()}, hosts)
        if group.name in found:
            raise BadNodeGroup((f"{at}.name", f"{group.name} is named twice"))
        found[group.name] = group
    return tuple(group for _, group in sorted(found.items()))


def of_class(node_class: GPUNodeClass) -> tuple[NodeGroup, ...]:
    """The machines that it names, as far as a node group would."""
    settings = (each.settings for each in node_class.spec.providers if each.settings is not None)
    machines = (machine for each in settings for machine in each.machines)
    return tuple(
        NodeGroup(each.name, each.gpu_count, each.scale_up_endpoint, each.scale_down_endpoint) for each in machines
    )


def manifests_of(
    groups: Iterable[NodeGroup], namespace: str, *, removed: bool = False
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The class and the pool. `removed`: none is configured any more, so these are not powered on or off."""
    machines = [msgspec.to_builtins(group) for group in groups]
    meta = {"name": POWER_NODES, "annotations": {KEPT_IN_STEP: "true"}}
    node_class: dict[str, Any] = {
        "apiVersion": GPU_NODE_CLASS.api_version,
        "kind": GPU_NODE_CLASS.kind,
        "metadata": meta,
        "spec": {
            "networking": {"backend": "none"},  # they are Nodes already
            "providers": [{"name": OWNED_PROVIDER, "settings": {"machines": machines}}],
        },
    }
    pool: dict[str, Any] = {
        "apiVersion": GPU_NODE_POOL.api_version,
        "kind": GPU_NODE_POOL.kind,
        "metadata": {**meta, "namespace": namespace},
        "spec": {"nodeClassRef": {"name": POWER_NODES}},
    }
    if removed:
        node_class["spec"]["suspend"] = True
        pool["spec"]["disruption"] = {"consolidationPolicy": "Never"}
    return node_class, pool


def _prefixes(environ: Mapping[str, str]) -> set[str]:
    for name in (part.removeprefix("_") for part in (UP, DOWN)):
        if name in environ or f"_{name}" in environ:
            raise BadNodeGroup((name, f"the variables of a machine have a prefix, such as GPU_NODE_1_{name}"))
    ends = {
        part: {name.removesuffix(part) for name in environ if name.endswith(part)} for part in (GPU_COUNT, UP, DOWN)
    }
    return (ends[UP] | ends[DOWN] | (ends[GPU_COUNT] - OF_OTHERS)) - {""}


def _group(said: Mapping[str, tuple[str, str]], hosts: HostRules) -> NodeGroup:
    """`said`: by part, where it was said and what. Raises BadNodeGroup with every problem."""
    if problems := tuple(_problems(said, hosts)):
        raise BadNodeGroup(*problems)
    return NodeGroup(said[NAME][1], int(said[GPU_COUNT][1]), said[UP][1], said[DOWN][1])


def _problems(said: Mapping[str, tuple[str, str]], hosts: HostRules) -> Iterator[tuple[str, str]]:
    where, name = said[NAME]
    if len(name) > LONGEST_NAME or not matches(name, cel.DNS_SUBDOMAIN_PATTERN):
        yield where, f"{name[:80]!r} is not the name of a Node"
    where, count = said[GPU_COUNT]
    if not (count.isascii() and count.isdigit() and 1 <= int(count[:9]) <= MOST_GPUS and len(count) <= 4):
        yield where, f"{count[:80]!r} is not a number of GPUs between 1 and {MOST_GPUS}"
    for part in (UP, DOWN):
        where, url = said[part]
        try:
            read(url, hosts)
        except HostRefused as error:
            yield where, str(error)
