"""Which machines would be exchanged for cheaper ones now, class by class, as a terminal sees it."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tgp.adapters.clouds.registry import facts_of
from tgp.api.common import PROVIDERS
from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.values import go_duration
from tgp.controllers.disruption.machine_facts import ending_machines, machine_of, moves_under_way
from tgp.controllers.requests.indexes import BY_POOL_UID, own_node
from tgp.core.disruption.budgets import allowance
from tgp.core.disruption.candidates import HELD_FOR, standing_of, with_stopped
from tgp.core.disruption.causes import UNDERUTILIZED, WHEN_UNDERUTILIZED, Standing
from tgp.core.disruption.ending import EndingMachine
from tgp.core.disruption.exchange import Consolidation, ExchangeInput, exchanges
from tgp.core.disruption.machine_state import CONDITION, UNPROVEN, disrupted, is_going
from tgp.core.disruption.move_steps import DisruptionObservation
from tgp.core.disruption.refits import refits
from tgp.core.model.attempts import attempts_of, open_attempt, provider_of
from tgp.core.model.conditions import condition_in
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.spend import INSTANT
from tgp.core.pools.capacity import ENDED
from tgp.core.pools.planner.plan import plan
from tgp.services.plan_answers import ConsolidationPlan, PlannedExchange
from tgp.services.plan_world import TerminalWorld


def consolidation_of(world: TerminalWorld, pool: ObjectKey | None) -> ConsolidationPlan:
    """`pool`: only machines of this one, and those that leave with them; None: of all that move pods together."""
    stores, now = world.visible.stores, world.visible.now
    placed = plan(world.observation.world).placed  # of pods that wait: they have their room first
    records = [each for each in sorted(stores.pools.values(), key=lambda each: each.key) if _moves_pods(each)]
    named = {each.key for each in records if pool in (None, each.key)}
    groups: dict[tuple[str, str], list[_Pool]] = {}  # by namespace and class: whose machines are exchanged together
    for each in records:
        assert each.value is not None, "a pool that moves pods can be read"
        machines = tuple(_standing(world, each, each.value, frozenset(placed.values())))
        group = groups.setdefault((each.key.namespace, each.value.spec.node_class_ref.name), [])
        group.append(_Pool(each.key, each.value, machines))
    parts = [
        _shown(world, group, named, placed) for group in groups.values() if any(each.key in named for each in group)
    ]
    return ConsolidationPlan(
        now,
        tuple(sorted(named)),
        tuple(each for part in parts for each in part.exchanges),
        {node: why for part in parts for node, why in part.left.items()},
        {node: why for part in parts for node, why in part.too_little.items()},
        {node: why for part in parts for node, why in part.limited.items()},
        world.visible.unseen,
    )


@dataclass(frozen=True, slots=True)
class _Pool:
    key: ObjectKey
    value: GPUNodePool
    machines: tuple[Standing, ...]


@dataclass(frozen=True, slots=True)
class _Shown:
    exchanges: tuple[PlannedExchange, ...]
    left: Mapping[str, str]  # by Node
    too_little: Mapping[str, str]
    limited: Mapping[str, str]


def _shown(
    world: TerminalWorld, pools: Sequence[_Pool], named: Collection[ObjectKey], placed: Mapping[str, str]
) -> _Shown:
    """What was found of machines of the pools that are named."""
    standing = {each.key: (each, pool) for pool in pools for each in pool.machines}
    nodes = {key: each.machine.node.name for key, (each, _) in standing.items() if each.machine.node is not None}
    made = _searched(world, pools[0].key.namespace, [each for each, _ in standing.values()], placed)
    found: list[PlannedExchange] = []
    for each in made.exchanges:
        leaving = [standing[key] for key in each.candidates]
        theirs = sorted({pool.key for _, pool in leaving})
        if not any(key in named for key in theirs):
            continue
        waits_for = _waits_for([pool for pool in pools if pool.key in theirs], world)
        held = _to_hold([one for one, _ in leaving]) if each.orders else ""
        priced = tuple((nodes[one.key], one.hourly_microusd) for one, _ in leaving)
        found.append(PlannedExchange(tuple(theirs), priced, each, waits_for or held))

    def by_node(told: Mapping[ObjectKey, str]) -> dict[str, str]:
        return {nodes[key]: why for key, why in told.items() if standing[key][1].key in named}

    return _Shown(tuple(found), by_node(made.left), by_node(made.too_little), by_node(made.limited))


def _moves_pods(record: KubeObject[GPUNodePool]) -> bool:
    if record.value is None or record.deleting:
        return False
    return canonical_policy(record.value.spec.disruption.consolidation_policy) == WHEN_UNDERUTILIZED


def _searched(
    world: TerminalWorld, namespace: str, standing: Iterable[Standing], placed: Mapping[str, str]
) -> Consolidation:
    """In the room that pods which wait leave, as far as the last plan of this terminal has a place for them."""
    given, stores = world.observation.world, world.visible.stores
    pools = tuple(each for each in given.pools if each.key.namespace == namespace)
    budgets = tuple(sorted(stores.disruption_budgets.values(), key=lambda each: each.key))
    leaving = (own_node(stores.nodes, each) for each in stores.requests.values() if is_going(each))
    going = frozenset(node.name for node in leaving if node is not None)
    left = refits(DisruptionObservation((), given.now, going=going), (), given, placed, ()).world
    searched = replace(left, pools=pools)
    return exchanges(ExchangeInput(searched, with_stopped(standing, pools), budgets, _ending(world)))


def _ending(world: TerminalWorld) -> dict[str, EndingMachine]:
    stores, losses = world.visible.stores, world.observation.world.spot_loss
    records = tuple(stores.requests.values())
    joined = ((node.name, each) for each in records if (node := own_node(stores.nodes, each)) is not None)
    moves = moves_under_way(records)
    return ending_machines(joined, moves, stores.pools.values(), stores.classes, losses=losses, now=world.visible.now)


def _standing(
    world: TerminalWorld, record: KubeObject[GPUNodePool], pool: GPUNodePool, awaited: Collection[str]
) -> Iterator[Standing]:
    stores, now = world.visible.stores, world.visible.now
    for request in sorted(stores.requests.by_index(BY_POOL_UID, record.uid_text), key=lambda each: each.key):
        if request.value is None or request.value.status.phase in ENDED:
            continue
        machine = machine_of(request, pool, stores, now, awaited=awaited)
        provider = provider_of(open_attempt(attempts_of(request)))
        step = facts_of(provider).billing_step if provider in PROVIDERS else INSTANT
        found = standing_of(machine, pool, world.observation.world.spot_loss, now, billing_step=step)
        if found is not None:
            yield found


def _to_hold(standing: Iterable[Standing]) -> str:
    """As the operator says it of these machines; only it knows since when the saving has held."""
    conditions = (condition_in(each.machine.record.status, CONDITION) for each in standing)
    said = [each.message for each in conditions if each is not None and each.reason == UNPROVEN]
    begins = said[0].rpartition("waiting until ")[2].partition("Z: ")[0] if said else ""
    return f"savings that last {go_duration(HELD_FOR)}" + (f", until {begins}Z" if begins else "")


def _waits_for(pools: Sequence[_Pool], world: TerminalWorld) -> str:
    if world.visible.hold is not None:
        return f"all purchases are paused ({world.visible.hold})"
    for pool in pools:
        missing = sum(disrupted(each.machine) for each in pool.machines)
        rules = pool.value.spec.disruption.budgets
        allowed = allowance(rules, UNDERUTILIZED, len(pool.machines), missing, world.visible.now)
        if not allowed:
            of = f"GPUNodePool {pool.key}: " if len(pools) > 1 else ""
            return f"{of}{allowed.rule} allows no more disruption now"
    return ""
