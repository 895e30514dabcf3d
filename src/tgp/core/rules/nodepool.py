"""What is true of a GPUNodePool: is its class there and willing, and could any machine satisfy it?"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.values import microusd
from tgp.core.model.conditions import Verdict
from tgp.core.model.gpus import known, members
from tgp.core.model.labels import Requirement, selector
from tgp.core.rules.beyond_crd import pool_problems, unknown_time_zones
from tgp.core.rules.can_buy import CANNOT_BUY
from tgp.core.rules.nodeclass import listed
from tgp.core.rules.requirements import Allowed, Malformed, together

OWNED = frozenset({"Ready", "Unsatisfiable", "Observing"})
CAPACITY_TYPES = ("on-demand", "spot")


@dataclass(frozen=True, slots=True)
class PoolSight:
    """All that a verdict on a pool may look at."""

    pool: GPUNodePool
    node_class: GPUNodeClass | None  # None: there is no such class
    class_unreadable: bool  # there is one, and this version cannot read it
    class_ready: Verdict | None  # None: nobody has judged it yet
    namespace_labels: Mapping[str, str] | None  # None: its namespace is not in view yet, so no class allows it
    allowed_namespaces_required: bool  # a class without allowedNamespaces serves nobody
    observing: bool  # the whole operator only looks
    time_zones: frozenset[str]  # the IANA names this system has; empty: it cannot tell


def judge_pool(sight: PoolSight) -> tuple[Verdict, ...]:
    reasons = tuple(_unsatisfiable(sight))
    verdicts = [_ready(sight)]
    if reasons:
        verdicts.append(Verdict("Unsatisfiable", True, "NoSuchMachine", "; ".join(reasons)))
    if sight.observing or sight.pool.spec.mode == "Observe":
        verdicts.append(Verdict("Observing", True, "Observing", "it plans and reports, and buys nothing"))
    return tuple(verdicts)


def _ready(sight: PoolSight) -> Verdict:
    pool, node_class = sight.pool, sight.node_class
    name = pool.spec.node_class_ref.name
    problems = pool_problems(pool)
    if sight.time_zones:
        problems += unknown_time_zones(pool, sight.time_zones)
    if problems:
        return _not_ready("InvalidSpec", listed(problems))
    if sight.class_unreadable:
        return _not_ready(
            "NodeClassUnreadable", f"GPUNodeClass {name} was written by a newer version: upgrade the operator"
        )
    if node_class is None:
        return _not_ready(
            "NodeClassNotFound",
            f"spec.nodeClassRef.name: there is no GPUNodeClass {name!r}; see kubectl get gpunodeclasses",
        )
    if sight.namespace_labels is None:
        return _not_ready("NamespaceNotSeen", "its namespace is not in view yet: no class allows it")
    if not namespace_allowed(node_class, sight.namespace_labels, required=sight.allowed_namespaces_required):
        return _not_ready(
            "NamespaceNotAllowed",
            f"GPUNodeClass {name} does not allow this namespace: ask its administrator about spec.allowedNamespaces",
        )
    if sight.class_ready is None:
        return Verdict("Ready", None, "NodeClassNotJudged", f"GPUNodeClass {name} was not looked at yet")
    if sight.class_ready.status is False and sight.class_ready.reason == CANNOT_BUY:
        return _not_ready("NodeClassCannotBuy", f"GPUNodeClass {name}: {sight.class_ready.message}")
    if sight.class_ready.status is not True:
        why = f"GPUNodeClass {name} is not ready ({sight.class_ready.reason}): kubectl describe gpunodeclass {name}"
        return _not_ready("NodeClassNotReady", why)
    if sight.class_ready.reason == "Suspended":
        return Verdict("Ready", True, "NodeClassSuspended", f"GPUNodeClass {name} is suspended: nothing is bought")
    return Verdict("Ready", True, "Valid", f"GPUNodeClass {name} is ready")


def namespace_allowed(node_class: GPUNodeClass, labels: Mapping[str, str], *, required: bool) -> bool:
    """Does the class serve a namespace with these labels? `required`: one that does not say serves nobody."""
    allowed = node_class.spec.allowed_namespaces
    if allowed is None:
        return not required
    expressions = (Requirement(row.key, row.operator, row.values) for row in allowed.match_expressions)
    return selector(allowed.match_labels, expressions).selects(labels)


def _unsatisfiable(sight: PoolSight) -> Iterator[str]:
    """Why no machine could ever serve this pool, as far as pool and class alone can tell."""
    pool = sight.pool
    rows = pool.spec.template.spec.requirements
    try:
        allowed = together(Requirement(row.key, row.operator, row.values) for row in rows)
    except Malformed:
        return  # the CRD refuses it; an object older than that rule is told by Ready
    for key, values in allowed.items():
        if not values.possible():
            yield f"the requirements on {key} contradict each other"
    if sight.node_class is not None:
        yield from _outside_class(allowed, sight.node_class)
        yield from _too_cheap(pool, sight.node_class)


def _outside_class(allowed: Mapping[str, Allowed], node_class: GPUNodeClass) -> Iterator[str]:
    """A pool can only narrow its class: what it asks for beyond that is never bought."""
    wants = node_class.spec.instance_requirements
    providers = tuple(canonical_provider(row.name) for row in node_class.spec.providers if row.enabled)
    for key, offered in (
        ("tgp.io/provider", providers),
        ("tgp.io/gpu-type", _models(wants.gpu_types)),
        ("tgp.io/region", wants.regions),
        ("topology.kubernetes.io/region", wants.regions),
        ("tgp.io/capacity-type", CAPACITY_TYPES if wants.spot_allowed else CAPACITY_TYPES[:1]),
        ("tgp.io/spot", ("false", "true") if wants.spot_allowed else ("false",)),
    ):
        if key in allowed and offered and not any(_admits(key, allowed[key])(value) for value in offered):
            yield f"{key}: the class has only {', '.join(offered[:5])}"
    memory = allowed.get("tgp.io/gpu-memory")
    if memory is not None and memory.below is not None and memory.below <= (wants.min_gpu_memory_gib or 0):
        yield f"tgp.io/gpu-memory: the class wants at least {wants.min_gpu_memory_gib} GiB"


def _admits(key: str, allowed: Allowed) -> Callable[[str], bool]:
    """GPU models go by any of their names, and a family stands for its members."""
    if key != "tgp.io/gpu-type" or allowed.chosen is None:
        return allowed.admits
    models = frozenset(_models(tuple(sorted(allowed.chosen))))
    return lambda model: model in models and model not in allowed.excluded


def _models(names: tuple[str, ...]) -> tuple[str, ...]:
    """Every model that some of these names mean; one that no table knows stands for itself."""
    return tuple(dict.fromkeys(model for name in names for model in (members(name) if known(name) else (name,))))


def _too_cheap(pool: GPUNodePool, node_class: GPUNodeClass) -> Iterator[str]:
    ceiling = pool.spec.max_hourly_price
    owned = any(row.enabled and row.name == "webhook" for row in node_class.spec.providers)
    if ceiling is not None and microusd(ceiling, "spec.maxHourlyPrice") == 0 and not owned:
        yield "spec.maxHourlyPrice is 0, and every machine of the class costs something"


def _not_ready(reason: str, message: str) -> Verdict:
    return Verdict("Ready", False, reason, message)
