"""Which machines would be exchanged for cheaper ones now, pool by pool, as a terminal sees it."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tgp.adapters.clouds.registry import facts_of
from tgp.api.common import PROVIDERS
from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.values import go_duration
from tgp.controllers.requests.indexes import BY_POOL_UID, PODS_BY_NODE
from tgp.core.disruption.budgets import allowance
from tgp.core.disruption.candidates import HELD_FOR, standing_of
from tgp.core.disruption.causes import UNDERUTILIZED, WHEN_UNDERUTILIZED, Machine, Standing
from tgp.core.disruption.exchange import Consolidation, ExchangeInput, exchanges
from tgp.core.disruption.machine_state import CONDITION, disturbed
from tgp.core.disruption.moves import UNPROVEN
from tgp.core.model.attempts import attempts_of, open_attempt, provider_of
from tgp.core.model.conditions import condition_in
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.spend import INSTANT
from tgp.core.pools.capacity import ENDED
from tgp.services.plan_documents import ConsolidationPlan, PlannedExchange
from tgp.services.plan_world import TerminalWorld


def consolidation_of(world: TerminalWorld, pool: ObjectKey | None) -> ConsolidationPlan:
    """`pool`: only of this one; None: of all that move pods together."""
    stores, now = world.sight.stores, world.sight.now
    records = [each for each in sorted(stores.pools.values(), key=lambda each: each.key) if _moves_pods(each)]
    named = [each for each in records if pool in (None, each.key)]
    found: list[PlannedExchange] = []
    left: dict[str, str] = {}
    too_little: dict[str, str] = {}
    limited: dict[str, str] = {}
    for record in named:
        assert record.value is not None, "a pool that moves pods can be read"
        standing = {each.key: each for each in _standing(world, record, record.value)}
        nodes = {key: each.machine.node.name for key, each in standing.items() if each.machine.node is not None}
        made = _searched(world, record, tuple(standing.values()))
        left |= {nodes[key]: why for key, why in made.left.items()}
        too_little |= {nodes[key]: why for key, why in made.too_little.items()}
        limited |= {nodes[key]: why for key, why in made.limited.items()}
        waits_for = _waits_for(record.value, tuple(standing.values()), world)
        for each in made.exchanges:
            leaving = tuple((nodes[key], standing[key].hourly_microusd) for key in each.candidates)
            held = _to_hold([standing[key] for key in each.candidates]) if each.orders else ""
            found.append(PlannedExchange(record.key, leaving, each, waits_for or held))
    return ConsolidationPlan(
        now, tuple(each.key for each in named), tuple(found), left, too_little, limited, world.sight.unseen
    )


def _moves_pods(record: KubeObject[GPUNodePool]) -> bool:
    if record.value is None or record.deleting:
        return False
    return canonical_policy(record.value.spec.disruption.consolidation_policy) == WHEN_UNDERUTILIZED


def _searched(world: TerminalWorld, record: KubeObject[GPUNodePool], standing: tuple[Standing, ...]) -> Consolidation:
    given = world.observation.world
    pools = tuple(each for each in given.pools if each.key.namespace == record.key.namespace)
    if not any(each.key == record.key for each in pools):
        return Consolidation()
    budgets = tuple(sorted(world.sight.stores.disruption_budgets.values(), key=lambda each: each.key))
    return exchanges(ExchangeInput(replace(given, pools=pools), standing, budgets))


def _standing(world: TerminalWorld, record: KubeObject[GPUNodePool], pool: GPUNodePool) -> Iterator[Standing]:
    stores, now = world.sight.stores, world.sight.now
    for request in sorted(stores.requests.by_index(BY_POOL_UID, record.uid_text), key=lambda each: each.key):
        if request.value is None or request.value.status.phase in ENDED:
            continue
        name = request.value.status.node_name or ""
        pods = tuple(sorted(stores.pods.by_index(PODS_BY_NODE, name), key=lambda each: each.key)) if name else ()
        machine = Machine(request, stores.nodes.get(ObjectKey("", name)) if name else None, pods)
        provider = provider_of(open_attempt(attempts_of(request)))
        step = facts_of(provider).billing_step if provider in PROVIDERS else INSTANT
        found = standing_of(machine, pool, world.observation.world.spot_loss, now, billing_step=step)
        if found is not None:
            yield found


def _to_hold(standing: Iterable[Standing]) -> str:
    """As the operator says it of these machines; only it knows since when the saving has held."""
    conditions = (condition_in(each.machine.record.status, CONDITION) for each in standing)
    said = [each.message for each in conditions if each is not None and each.reason == UNPROVEN]
    return said[0].rpartition("; ")[2] if said else f"the saving has to hold for {go_duration(HELD_FOR)}"


def _waits_for(pool: GPUNodePool, standing: tuple[Standing, ...], world: TerminalWorld) -> str:
    if world.sight.hold is not None:
        return f"all purchases are paused ({world.sight.hold})"
    missing = sum(disturbed(each.machine) for each in standing)
    allowed = allowance(pool.spec.disruption.budgets, UNDERUTILIZED, len(standing), missing, world.sight.now)
    return "" if allowed else f"{allowed.rule} allows no more disruption now"
