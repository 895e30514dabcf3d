"""Conditions of a GPUNodePool: does its class exist and allow it, and could any machine satisfy it?"""

from collections.abc import Callable, Iterator, Mapping

import msgspec

from tgp.api.common import OWNED_PROVIDER, canonical_provider
from tgp.api.field_error import FieldError, Reason
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.values import microusd
from tgp.core.classes.can_buy import CANNOT_BUY
from tgp.core.classes.nodeclass import listed, namespace_allowed
from tgp.core.classes.semantic_validation import (
    CLASS_HAS_ONLY,
    CLASS_MISSING,
    FREE_MACHINES,
    FREE_RULE,
    NAMESPACE_REFUSED,
    NARROW_RULE,
    REQUIREMENTS_RULE,
    pool_problems,
    unknown_time_zones,
)
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.gpus import family_members, known
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.regions import atlas
from tgp.core.pools.requirements import Allowed, Malformed, together

OWNED = frozenset({"Ready", "Limited", "Unsatisfiable", "Observing"})
REQUIREMENTS = "spec.template.spec.requirements"
CAPACITY_TYPES = ("on-demand", "spot")
SUSPENDED = "NodeClassSuspended"
SOON_KNOWN = frozenset({"NodeClassNotSeen", "NamespaceNotSeen"})  # reasons that last for moments


class PoolObservation(msgspec.Struct, frozen=True):
    """The input of the pool's conditions."""

    pool: GPUNodePool
    node_class: GPUNodeClass | None  # None: the class does not exist
    class_unreadable: bool  # the class exists, and this version cannot read it
    class_ready: ConditionUpdate | None  # None: not checked yet
    namespace_labels: Mapping[str, str] | None  # None: its Namespace is not in the cache yet, so no class allows it
    allowed_namespaces_required: bool  # a class without allowedNamespaces serves no namespace
    observing: bool  # the operator runs with --observe
    time_zones: frozenset[str]  # the IANA names this system has; empty: they are unknown


def buys_nothing(ready: ConditionUpdate) -> bool:
    """Of the condition Ready of a pool."""
    return ready.status is not True or ready.reason == SUSPENDED


def judge_pool(observation: PoolObservation) -> tuple[ConditionUpdate, ...]:
    why = " ".join(_sentence(each) for each in unsatisfiable(observation.pool, observation.node_class))
    updates = [_ready(observation, why)]
    if why:
        updates.append(ConditionUpdate("Unsatisfiable", True, "NoSuchMachine", why))
    if observation.observing or observation.pool.spec.mode == "Observe":
        updates.append(ConditionUpdate("Observing", True, "Observing", "Pool plans and reports, and launches nothing."))
    return tuple(updates)


def _ready(observation: PoolObservation, unsatisfiable_by: str) -> ConditionUpdate:
    """`unsatisfiable_by`: why no machine could ever serve the pool; empty: one may."""
    pool, node_class = observation.pool, observation.node_class
    name = pool.spec.node_class_ref.name
    problems = pool_problems(pool)
    if observation.time_zones:
        problems += unknown_time_zones(pool, observation.time_zones)
    if problems:
        return _not_ready("InvalidSpec", f"{listed(problems)}.")
    if observation.class_unreadable:
        return _not_ready(
            "NodeClassUnreadable", f"GPUNodeClass {name} was written by a newer version; upgrade the operator."
        )
    if node_class is None:
        return _not_ready(
            "NodeClassNotFound",
            f"GPUNodeClass {name!r} of spec.nodeClassRef {CLASS_MISSING}.",
        )
    if observation.namespace_labels is None:
        return _not_ready(
            "NamespaceNotSeen",
            "Namespace of the pool is not in the cache yet; the class is checked once it is.",
        )
    if not namespace_allowed(
        node_class, observation.namespace_labels, required=observation.allowed_namespaces_required
    ):
        return _not_ready(
            "NamespaceNotAllowed",
            f"GPUNodeClass {name} {NAMESPACE_REFUSED}.",
        )
    if unsatisfiable_by:
        return _not_ready("Unsatisfiable", unsatisfiable_by)
    if observation.class_ready is None:
        return ConditionUpdate("Ready", None, "NodeClassNotSeen", f"GPUNodeClass {name} was not checked yet.")
    if observation.class_ready.status is False and observation.class_ready.reason == CANNOT_BUY:
        why = f"GPUNodeClass {name}: {observation.class_ready.message}{_narrowed_by(pool)}"
        return _not_ready("NodeClassCannotBuy", why)
    if observation.class_ready.status is not True:
        why = (
            f"GPUNodeClass {name} is not ready ({observation.class_ready.reason}): kubectl describe gpunodeclass {name}"
        )
        return _not_ready("NodeClassNotReady", why)
    if observation.class_ready.reason == "Suspended":
        return ConditionUpdate(
            "Ready",
            True,
            SUSPENDED,
            f"GPUNodeClass {name} is suspended and launches no machine; tgp release class/{name} resumes it.",
        )
    return ConditionUpdate("Ready", True, "Valid", f"GPUNodeClass {name} is ready.")


def _narrowed_by(pool: GPUNodePool) -> str:
    """A class that is changed to buy other machines helps a pool only if the pool allows these, too."""
    keys = dict.fromkeys(row.key for row in pool.spec.template.spec.requirements)
    return f" The requirements of this pool must allow it, too: {', '.join(keys)}." if keys else ""


def unsatisfiable(pool: GPUNodePool, node_class: GPUNodeClass | None) -> Iterator[FieldError]:
    """Why no machine could ever serve this pool, as far as pool and class alone show."""
    rows = pool.spec.template.spec.requirements
    try:
        allowed = together(LabelRequirement(row.key, row.operator, row.values) for row in rows)
    except Malformed:
        return  # the CRD refuses it; an object older than that rule is reported by Ready
    for key, values in allowed.items():
        if not values.possible():
            yield _never(f"the requirements on {key} contradict each other")
    if node_class is not None:
        yield from _outside_class(allowed, node_class)
        yield from _too_cheap(pool, node_class)


def _never(detail: str, rule: str = REQUIREMENTS_RULE) -> FieldError:
    return FieldError(REQUIREMENTS, Reason.FORBIDDEN, detail, rule=rule)


def _sentence(problem: FieldError) -> str:
    if problem.path == REQUIREMENTS:
        return f"Pool requirements: {problem.detail}."
    return f"{problem.path} {problem.detail}."


def _outside_class(allowed: Mapping[str, Allowed], node_class: GPUNodeClass) -> Iterator[FieldError]:
    """A pool can only narrow its class: what it requests beyond that is never launched."""
    wants = node_class.spec.instance_requirements
    # A country or a provider's own name is in some region that its offers tell.
    regions = wants.regions if set(wants.regions) <= set(atlas().regions) else ()
    providers = tuple(canonical_provider(row.name) for row in node_class.spec.providers if row.enabled)
    for key, offered in (
        ("tgp.io/provider", providers),
        ("tgp.io/gpu-type", _models(wants.gpu_types)),
        ("tgp.io/region", regions),
        ("topology.kubernetes.io/region", regions),
        ("tgp.io/capacity-type", CAPACITY_TYPES if wants.spot_allowed else CAPACITY_TYPES[:1]),
        ("tgp.io/spot", ("false", "true") if wants.spot_allowed else ("false",)),
    ):
        if key in allowed and offered and not any(value_check(key, allowed[key])(value) for value in offered):
            yield _never(f"{key}: {CLASS_HAS_ONLY} {', '.join(offered[:5])}", NARROW_RULE)
    memory = allowed.get("tgp.io/gpu-memory")
    if memory is not None and memory.below is not None and memory.below <= (wants.min_gpu_memory_gib or 0):
        yield _never(f"tgp.io/gpu-memory: the class requires at least {wants.min_gpu_memory_gib} GiB")


def value_check(key: str, allowed: Allowed) -> Callable[[str], bool]:
    """GPU models go by any of their names, and a family stands for its members."""
    if key != "tgp.io/gpu-type" or allowed.chosen is None:
        return allowed.admits
    models = frozenset(_models(tuple(sorted(allowed.chosen))))
    return lambda model: model in models and model not in allowed.excluded


def _models(names: tuple[str, ...]) -> tuple[str, ...]:
    """Every model that some of these names mean; an unknown one stands for itself."""
    return tuple(dict.fromkeys(model for name in names for model in (family_members(name) if known(name) else (name,))))


def _too_cheap(pool: GPUNodePool, node_class: GPUNodeClass) -> Iterator[FieldError]:
    ceiling = pool.spec.max_hourly_price
    owned = any(row.enabled and row.name == OWNED_PROVIDER for row in node_class.spec.providers)
    if ceiling is not None and microusd(ceiling, "spec.maxHourlyPrice") == 0 and not owned:
        yield FieldError("spec.maxHourlyPrice", Reason.FORBIDDEN, FREE_MACHINES, rule=FREE_RULE)


def _not_ready(reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate("Ready", False, reason, message)
