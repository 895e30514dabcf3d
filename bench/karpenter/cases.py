"""Pods as manifests, and machines to rent for them: Karpenter's own benchmark, GPU markets, and two GPU pods."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Manifest: TypeAlias = dict[str, Any]

PROVIDER = "simulated"
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CPU, MEMORY, PODS, GPU = "cpu", "memory", "pods", "nvidia.com/gpu"
MIB, GIB = 1 << 20, 1 << 30
MICRO = 1_000_000
EPHEMERAL: Manifest = {"key": "tgp.io/ephemeral", "effect": "NoSchedule"}

CPUS = (100, 250, 500, 1000, 1500)  # milli, as Karpenter's benchmark draws them
MEMORIES = (100, 256, 512, 1024, 2048, 4096)  # MiB
LABELS = "abcdefg"
MIXED_TYPES = 400
MIXED_ZONES = 3

# model, memory of one GPU in GiB, what one costs an hour on average in micro-dollars
MODELS = (
    ("RTX3060-12GB", 12, 90_000),
    ("A4000", 16, 160_000),
    ("T4", 16, 240_000),
    ("RTX3090", 24, 220_000),
    ("RTX4090", 24, 340_000),
    ("L4", 24, 450_000),
    ("RTX5090", 32, 550_000),
    ("A6000", 48, 700_000),
    ("L40S", 48, 790_000),
    ("A100-40GB-PCIE", 40, 1_100_000),
    ("A100-80GB-PCIE", 80, 1_390_000),
    ("H100-PCIE", 80, 1_990_000),
    ("H100-NVL", 94, 2_490_000),
    ("H200-SXM", 141, 3_290_000),
)
REGIONS = 24
MARKET_TYPES = 500


@dataclass(frozen=True)
class MachineType:
    """One kind of machine, for rent without end in each of its zones at one price."""

    name: str
    capacity: Mapping[str, int]  # CPU in milli
    reserved: Mapping[str, int]  # what pods cannot have
    microusd: int  # an hour
    zones: tuple[str, ...]  # as the label says
    gpu: str = "RTX4090"
    gpu_memory_gib: int = 24
    gpus: int = 1
    spot: bool = False

    @property
    def allocatable(self) -> dict[str, int]:
        return {name: amount - self.reserved.get(name, 0) for name, amount in self.capacity.items()}

    @property
    def labels(self) -> dict[str, str]:
        """Those that its offer decides, besides the zone."""
        return {
            "tgp.io/gpu-type": self.gpu,
            "tgp.io/gpu-memory": str(self.gpu_memory_gib),
            "tgp.io/capacity-type": "spot" if self.spot else "on-demand",
        }


@dataclass(frozen=True)
class Case:
    name: str
    types: tuple[MachineType, ...]
    pods: tuple[Manifest, ...]
    taints: tuple[Manifest, ...] = ()  # of every machine


@dataclass(frozen=True)
class Machine:
    """A machine of a plan."""

    type: str
    zone: str
    microusd: int
    pods: tuple[str, ...]  # by uid


@dataclass(frozen=True)
class Answer:
    machines: tuple[Machine, ...]
    seconds: float
    unserved: Mapping[str, str] = field(default_factory=dict)  # pod uid → why

    @property
    def microusd(self) -> int:
        return sum(machine.microusd for machine in self.machines)


def zone(place: str) -> str:
    """The zone's label, as a Node at this place of the provider has it."""
    return f"{PROVIDER}-{place}"


def karpenters_mix(count: int, seed: int = 42) -> Case:
    """Five equal parts, the rest generic: generic, spread by zone, by host, together in a zone, apart by host."""
    luck = random.Random(seed)
    part = count // 5
    makers: list[Callable[[random.Random], tuple[Manifest, Manifest]]] = [_generic] * (part + count % 5)
    for ruled in (_zone_spread, _host_spread, _zone_affinity, _host_anti_affinity):
        makers += [ruled] * part
    pods = []
    for number, make in enumerate(makers):
        labels, rules = make(luck)
        requests = {CPU: f"{luck.choice(CPUS)}m", MEMORY: f"{luck.choice(MEMORIES)}Mi"}
        pods.append(_pod(number, requests, labels, rules))
    return Case(f"mix of {count} pods", mixed_types(), tuple(pods))


def mixed_types() -> tuple[MachineType, ...]:
    """From one vCPU with 2 GiB and 10 pods upwards, at a price for each vCPU and each 10^9 bytes."""
    zones = tuple(zone(f"zone-{number + 1}") for number in range(MIXED_ZONES))
    return tuple(
        MachineType(
            f"fake-it-{size - 1}",
            {CPU: size * 1000, MEMORY: size * 2 * GIB, PODS: size * 10},
            {CPU: 100, MEMORY: 10 * MIB},
            round(MICRO * (0.1 * size + 0.1 * size * 2 * GIB / 1e9)),
            zones,
        )
        for size in range(1, MIXED_TYPES + 1)
    )


def _pod(number: int, requests: Manifest, labels: Manifest, rules: Manifest) -> Manifest:
    resources = {"requests": requests, "limits": {GPU: requests[GPU]} if GPU in requests else {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"pod-{number}",
            "namespace": "default",
            "uid": f"00000000-0000-4000-8000-{number:012x}",
            "labels": labels,
            "resourceVersion": "1",
            "creationTimestamp": "2026-11-16T12:00:00Z",
        },
        "spec": {"containers": [{"name": "main", "image": "main", "resources": resources}], **rules},
        "status": {
            "phase": "Pending",
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
        },
    }


def _generic(luck: random.Random) -> tuple[Manifest, Manifest]:
    return {"my-label": luck.choice(LABELS)}, {}


def _zone_spread(luck: random.Random) -> tuple[Manifest, Manifest]:
    return {"my-label": luck.choice(LABELS)}, _spread(ZONE, {"my-label": luck.choice(LABELS)})


def _host_spread(luck: random.Random) -> tuple[Manifest, Manifest]:
    return {"my-label": luck.choice(LABELS)}, _spread(HOSTNAME, {"my-label": luck.choice(LABELS)})


def _zone_affinity(luck: random.Random) -> tuple[Manifest, Manifest]:
    labels = {"my-affininity": luck.choice(LABELS)}
    return labels, {"affinity": {"podAffinity": _required(ZONE, labels)}}


def _host_anti_affinity(_luck: random.Random) -> tuple[Manifest, Manifest]:
    labels = {"app": "nginx"}
    return labels, {"affinity": {"podAntiAffinity": _required(HOSTNAME, labels)}}


def _spread(key: str, labels: Manifest) -> Manifest:
    constraint = {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**constraint, "labelSelector": {"matchLabels": labels}}]}


def _required(key: str, labels: Manifest) -> Manifest:
    term = {"labelSelector": {"matchLabels": labels}, "topologyKey": key}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def gpu_market(count: int, classes: int, seed: int, types_on_sale: int = MARKET_TYPES) -> Case:
    """Machines with 1 to 8 GPUs, no two alike; pods that ask for GPU memory, models, regions or on-demand machines."""
    luck = random.Random(seed)
    types = tuple(_market_type(number, luck) for number in range(types_on_sale))
    asked = [_asked(types, luck) for _ in range(classes)]
    weights = [luck.gammavariate(0.5, 1.0) + 1e-3 for _ in range(classes)]
    drawn = [*range(classes), *luck.choices(range(classes), weights, k=count - classes)]
    pods = tuple(_pod(number, *asked[chosen]) for number, chosen in enumerate(sorted(drawn)))
    return Case(f"GPU market {seed}: {count} pods in {classes} classes", types, pods, (EPHEMERAL,))


def _market_type(number: int, luck: random.Random) -> MachineType:
    model, memory_gib, average = luck.choice(MODELS)
    gpus = luck.choices((1, 2, 4, 8), (40, 25, 20, 15))[0]
    spot = luck.random() < 0.35
    price = average * gpus * luck.lognormvariate(0, 0.25) * (0.45 if spot else 1.0)
    return MachineType(
        f"type-{number}",
        {
            CPU: gpus * luck.randint(4, 32) * 1000,
            MEMORY: gpus * luck.randint(12, 128) * GIB,
            GPU: gpus,
            PODS: 110,
        },
        {CPU: 200, MEMORY: 512 * MIB},
        round(price),
        (zone(f"region-{luck.randrange(REGIONS)}"),),
        model,
        memory_gib,
        gpus,
        spot,
    )


def _asked(types: tuple[MachineType, ...], luck: random.Random) -> tuple[Manifest, Manifest, Manifest]:
    """What one class asks for; drawn again until some machine has it."""
    while True:
        gpus = luck.choice((1, 1, 1, 2, 4, 8))
        cpu, memory = gpus * luck.randint(2, 12) * 500, gpus * luck.randint(4, 48) * GIB
        wanted = []
        if least := luck.choices((0, 16, 24, 40, 80), (30, 20, 25, 15, 10))[0]:
            wanted.append({"key": "tgp.io/gpu-memory", "operator": "Gt", "values": [str(least - 1)]})
        if luck.random() < 0.3:
            regions = luck.sample(range(REGIONS), 8)
            wanted.append({"key": ZONE, "operator": "In", "values": [zone(f"region-{each}") for each in regions]})
        if luck.random() < 0.4:
            wanted.append({"key": "tgp.io/capacity-type", "operator": "In", "values": ["on-demand"]})
        if luck.random() < 0.2:
            models = [model for model, _, _ in luck.sample(MODELS, 6)]
            wanted.append({"key": "tgp.io/gpu-type", "operator": "In", "values": models})
        if any(_holds(each, (gpus, cpu, memory), wanted) for each in types):
            break
    rules: Manifest = {"tolerations": [{"key": EPHEMERAL["key"], "operator": "Exists"}]}
    if wanted:
        terms = {"nodeSelectorTerms": [{"matchExpressions": wanted}]}
        rules["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {CPU: f"{cpu}m", MEMORY: str(memory), GPU: str(gpus)}, {}, rules


def _holds(machine: MachineType, need: tuple[int, int, int], wanted: list[Manifest]) -> bool:
    labels = {**machine.labels, ZONE: machine.zones[0]}
    room = machine.allocatable
    if any(room[name] < amount for name, amount in zip((GPU, CPU, MEMORY), need, strict=True)):
        return False
    return all(
        int(labels[each["key"]]) > int(each["values"][0])
        if each["operator"] == "Gt"
        else labels[each["key"]] in each["values"]
        for each in wanted
    )


# AWS g5 in us-east-1, on demand: vCPUs, GiB, GPUs, dollars an hour
G5 = {
    "g5.xlarge": (4, 16, 1, 1.006),
    "g5.2xlarge": (8, 32, 1, 1.212),
    "g5.4xlarge": (16, 64, 1, 1.624),
    "g5.8xlarge": (32, 128, 1, 2.448),
    "g5.12xlarge": (48, 192, 4, 5.672),
    "g5.16xlarge": (64, 256, 1, 4.096),
    "g5.24xlarge": (96, 384, 4, 8.144),
    "g5.48xlarge": (192, 768, 8, 16.288),
}


def two_gpu_pods() -> Case:
    """Two pods with a GPU each, which Karpenter puts on a machine with four."""
    types = tuple(
        MachineType(
            name,
            {CPU: cpus * 1000, MEMORY: gib * GIB, GPU: gpus, PODS: 110},
            {CPU: 200, MEMORY: 512 * MIB},
            round(dollars * MICRO),
            (zone("us-east-1a"),),
            "A10G",
            24,
            gpus,
        )
        for name, (cpus, gib, gpus, dollars) in G5.items()
    )
    pods = tuple(_pod(number, {CPU: "6", MEMORY: f"{24 * GIB}", GPU: "1"}, {}, {}) for number in range(2))
    return Case("two GPU pods, AWS g5", types, pods)
