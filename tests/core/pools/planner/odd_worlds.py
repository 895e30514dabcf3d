"""Generated worlds to plan, odd ones included: what users may write, and what providers may say."""

import random
from datetime import timedelta

from tests.core.pools.planner.worlds import (
    GIB,
    GPU,
    HOSTNAME,
    NOW,
    PLUGIN,
    TOLERATES,
    ZONE,
    a_class,
    a_market,
    a_node,
    a_pod,
    a_pool,
    a_world,
    on_sale,
)
from tgp.core.model.labels import LabelRequirement, Selector, selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode, Stock, Trust
from tgp.core.model.placement import Affinity, HostPort, NodeTerm, PodTerm, SpreadConstraint
from tgp.core.model.pod import Pod
from tgp.core.model.resources import Resources
from tgp.core.model.storage import Claim, StorageClass, Volume
from tgp.core.model.taints import Taint, Toleration
from tgp.core.model.workload import DaemonSet
from tgp.core.pools.planner.world import Capacity, LimitRoom, PlanInput, PlannedPool

MODELS = ("RTX4090", "A100-80GB-SXM", "H100", "no-such-gpu")
APPS = ("x", "y", "z")
KEYS = ("tgp.io/gpu-type", "tgp.io/gpu-memory", ZONE, "topology.kubernetes.io/region", "rack", HOSTNAME)
HUGE = 1 << 63
LOGGER = DaemonSet(
    key=ObjectKey("kube-system", "logger"),
    requests=Resources(1500, 4 * GIB),
    tolerations=(Toleration(operator="Exists"),),
    host_ports=(HostPort(443),),
)


def an_odd_offer(luck: random.Random, number: int):
    return on_sale(
        f"t{number}",
        luck.choice((0.0, 0.1, 0.5, 1.0, 2.0, 40.0)),
        gpu=luck.choice(MODELS),
        gpu_count=luck.choice((1, 1, 2, 8)),
        gpu_memory_gib=luck.choice((0, 24, 80)),
        vcpus=luck.choice((0, 4, 16, 64)),
        memory_gib=luck.choice((0, 16, 128)),
        place=luck.choice(("a", "b", "c", "", "Oregon, US")),
        region=luck.choice(("us-west", "us-east", "unknown")),
        spot=luck.random() < 0.3,
        stock=luck.choice(tuple(Stock)),
        left=luck.choice((None, 0, 1, 3, 50)),
        trust=luck.choice(tuple(Trust)),
        boot=luck.choice((BootMode.NATIVE, BootMode.NATIVE, BootMode.TAKEOVER, BootMode.CONTAINER)),
        until=luck.choice((None, None, NOW + timedelta(hours=1))),
    )


def a_requirement(luck: random.Random) -> LabelRequirement:
    operator = luck.choice(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Near"))
    return LabelRequirement(
        luck.choice(KEYS), operator, tuple(luck.choices(("RTX4090", "24", "simulated-a"), k=luck.randint(0, 2)))
    )


def a_term(luck: random.Random) -> PodTerm:
    labels = {"app": luck.choice(APPS)} if luck.random() < 0.9 else {}
    return PodTerm(
        luck.choice((HOSTNAME, ZONE, "rack")),
        selector(labels),
        luck.choice(((), ("team",), ("elsewhere",))),
        luck.choice((None, None, Selector())),
    )


def an_odd_pod(luck: random.Random, number: int) -> Pod:
    terms = tuple(NodeTerm(tuple(a_requirement(luck) for _ in range(luck.randint(0, 2)))) for _ in range(2))
    if luck.random() < 0.01:
        terms = terms * 500
    affinity = Affinity(
        terms if luck.random() < 0.2 else None,
        tuple(a_term(luck) for _ in range(luck.random() < 0.15)),
        tuple(a_term(luck) for _ in range(luck.random() < 0.2)),
    )
    spreads = tuple(
        SpreadConstraint(
            luck.choice((ZONE, HOSTNAME, "rack")),
            selector({"app": luck.choice(APPS)}),
            luck.choice((1, 2)),
            luck.choice((None, None, 2, 9)),
            luck.random() < 0.8,
            luck.choice(((), ("app",), ("absent",))),
        )
        for _ in range(luck.random() < 0.25)
    )
    annotations = luck.choice(
        (
            {},
            {},
            {},
            {"tgp.io/max-price": "0.4"},
            {"tgp.io/max-price": "cheap", "tgp.io/max-wait": "soon"},
            {"tgp.io/max-price": "0.4", "tgp.io/max-wait": "1m"},
            {"tgp.io/gang": luck.choice("gh"), "tgp.io/gang-size": luck.choice(("2", "3", "many", "-1"))},
            {"tgp.io/gang": luck.choice("gh")},
            {"tgp.io/checkpoint-every": luck.choice(("1h", "9h", "24h", "soon"))},
        )
    )
    return a_pod(
        f"p{number}",
        requests=Resources(
            luck.choice((0, 500, 4000, HUGE if luck.random() < 0.05 else 1000)),
            luck.choice((0, GIB, 8 * GIB)),
            ((GPU, luck.choice((0, 1, 1, 2, 8))), ("ephemeral-storage", luck.choice((0, 0, GIB))), ("pods", 0)),
        ),
        labels={"app": luck.choice(APPS)},
        affinity=affinity,
        spreads=spreads,
        tolerations=luck.choice((TOLERATES, TOLERATES, (), (Toleration(operator="Exists"),))),
        node_selector=luck.choice(({}, {}, {}, {"tgp.io/gpu-type": "RTX4090"}, {"rack": "7"})),
        host_ports=luck.choice(((), (), (), (HostPort(80),), (HostPort(80, "TCP", "10.0.0.1"), HostPort(443)))),
        volume_claims=luck.choice(((), (), (), ("data",), ("waits",), ("nowhere",))),
        annotations=annotations,
        priority=luck.choice((0, 0, 0, 100, -5)),
        created_at=luck.choice((NOW - timedelta(minutes=9), None)),
    )


def a_node_of(luck: random.Random, number: int) -> Capacity:
    running = tuple(an_odd_pod(luck, 1000 + 10 * number + each) for each in range(luck.randint(0, 2)))
    labels = {HOSTNAME: f"n{number}"} | ({ZONE: luck.choice(("home", "simulated-a"))} if luck.random() < 0.7 else {})
    return a_node(
        f"n{number}",
        luck.randint(0, 2),
        pods=running,
        labels=labels,
        taints=luck.choice(((), (Taint("team", "NoSchedule"),))),
        coming=ObjectKey("team", f"n{number}") if luck.random() < 0.2 else None,
    )


def an_odd_pool(luck: random.Random, number: int) -> PlannedPool:
    rows = [
        {"key": "tgp.io/gpu-type", "operator": "In", "values": ["RTX4090"]},
        {"key": "tgp.io/gpu-type", "operator": "NotIn", "values": ["RTX4090"]},
        {"key": ZONE, "operator": "In", "values": ["simulated-a", "simulated-b"]},
        {"key": "tgp.io/gpu-memory", "operator": "Gt", "values": ["30"]},
    ]
    return a_pool(
        f"pool{number}",
        [row for row in rows if luck.random() < 0.15],
        node_class=a_class(
            bootPolicy="Takeover",
            instanceRequirements={"spotAllowed": luck.random() < 0.5, "minTrust": luck.choice(("Any", "Datacenter"))},
        ),
        untrusted=frozenset({"team"}) if luck.random() < 0.5 else frozenset(),
        stopped="NodeClassSuspended: suspended" if luck.random() < 0.1 else "",
        weight=luck.choice((0, 0, 10)),
        template={"spec": {"requirements": [], "taints": [{"key": "gpu", "effect": "NoSchedule"}]}}
        if luck.random() < 0.2
        else None,
        **({"maxHourlyPrice": luck.choice(("0", "1.0", "0.3"))} if luck.random() < 0.5 else {}),
    )


def near_gangs(seed: int) -> PlanInput:
    """Pods of gangs and others that have to share a machine with them, where not all can be served."""
    luck = random.Random(seed)
    made = []
    for number in range(luck.randint(2, 7)):
        gang = luck.choice(("g", "g", "h", ""))
        near = (PodTerm(HOSTNAME, selector({"app": luck.choice(APPS)})),) if luck.random() < 0.5 else ()
        made.append(
            a_pod(
                f"p{number}",
                requests=Resources(luck.choice((500, 4000)), GIB, ((GPU, luck.choice((1, 1, 2))), ("pods", 0))),
                labels={"app": luck.choice(APPS)},
                affinity=Affinity(near=near),
                annotations={"tgp.io/gang": gang} if gang else {},
                node_selector=luck.choice(({}, {}, {}, {"rack": "7"})),
            )
        )
    offers = [
        on_sale(f"t{each}", 1.0 + each, gpu_count=luck.choice((1, 2, 4)), left=luck.randint(0, 2)) for each in range(3)
    ]
    return a_world(made, a_market(*offers))


def an_odd_world(seed: int) -> PlanInput:
    luck = random.Random(seed)
    pools = [an_odd_pool(luck, number) for number in range(luck.randint(0, 3))]
    keys = frozenset(each.key for each in pools)
    limits = [
        LimitRoom(resource, resource, luck.choice((0, 1, 2, 3_000_000)), keys)
        for resource in ("usd", "nodes", "cpu", "memory", GPU)
        if luck.random() < 0.12
    ]
    limits += [LimitRoom("of one pool", "nodes", luck.randint(0, 2), frozenset({each.key})) for each in pools[:1]]
    data = Claim(key=ObjectKey("team", "data"), phase="Bound", volume="v", bound=True)
    waits = Claim(key=ObjectKey("team", "waits"), phase="Pending", storage_class="wait")
    terms = (NodeTerm((LabelRequirement(ZONE, "In", ("simulated-a",)),)),)
    return _built(luck, pools, limits, (data, waits), terms)


def _built(luck, pools, limits, claims, terms) -> PlanInput:
    return a_world(
        [an_odd_pod(luck, number) for number in range(luck.randint(1, 12))],
        a_market(*(an_odd_offer(luck, number) for number in range(luck.randint(0, 12)))),
        *(pools or [an_odd_pool(luck, 0)]),
        capacity=tuple(a_node_of(luck, number) for number in range(luck.randint(0, 3))),
        limits=tuple(limits),
        daemon_sets=(PLUGIN, LOGGER) if luck.random() < 0.5 else (PLUGIN,),
        claims={each.key: each for each in claims},
        volumes={"v": Volume(key=ObjectKey("", "v"), node_terms=luck.choice((terms, None)))},
        storage_classes={
            "wait": StorageClass(key=ObjectKey("", "wait"), provisioner="csi", binding_mode="WaitForFirstConsumer")
        },
    )
