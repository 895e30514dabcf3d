"""Why nothing may be bought for a request now, whatever is on sale; and since when one could not buy."""

from dataclasses import dataclass
from datetime import datetime

from tgp.api.request import Attempt, GPURequest
from tgp.core.classes.default_class import IMPLICIT, Chosen, Why
from tgp.core.classes.nodeclass import listed
from tgp.core.classes.semantic_validation import request_against_class, request_problems
from tgp.core.inventory.limits import reservation_of, shortage
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.token import plain_uid
from tgp.core.requests.observation import OwningPool, RequestObservation
from tgp.core.requests.purchase import NoPurchase

PAUSED = frozenset({"PurchasesPaused", "Suspended", "NodePoolObserving"})  # reasons that a user sets and lifts again
# Neither time nor the market removes these: a user has to change something.
NEEDS_USER = frozenset(
    {
        "DevicePluginMissing",
        "InvalidSpec",
        "NamespaceNotAllowed",
        "NodeClassNotFound",
        "NodeClassUnreadable",
        "NotInClass",
        "SeveralDefaultClasses",
        "SpotNotAllowed",
    }
)


def purchase_stop(observation: RequestObservation) -> NoPurchase | None:
    """Before an offer is chosen; None: nothing speaks against it."""
    return _stop(observation) or (
        _invalid(observation.record, observation.chosen) if isinstance(observation.chosen, Chosen) else None
    )


def order_stop(observation: RequestObservation, attempt: Attempt) -> NoPurchase | None:
    """Before what was reserved is ordered; None: nothing speaks against it."""
    return _stop(observation) or _distrusted(observation) or _over_limit(observation, attempt)


@dataclass(frozen=True, slots=True)
class CannotBuy:
    """Of a request without a machine: since when it could not buy, and the reason of its condition Launched."""

    since: datetime
    reason: str  # empty: nothing was decided about it yet
    message: str


def cannot_buy(record: KubeObject[GPURequest]) -> CannotBuy | None:
    """By its status alone; None: it has or may have a machine, it ended, or it cannot be read."""
    if record.value is None or record.created_at is None or record.value.status.phase in ("Finished", "Failed"):
        return None
    attempts = attempts_of(record)
    if open_attempt(attempts) is not None:
        return None
    launched = next((each for each in record.value.status.conditions if each.type == "Launched"), None)
    moments = [record.created_at, *(each.ended_at for each in attempts if each.ended_at is not None)]
    if launched is None:
        return CannotBuy(max(moments), "", "")
    return CannotBuy(max(*moments, launched.last_transition_time or moments[0]), launched.reason, launched.message)


def _stop(observation: RequestObservation) -> NoPurchase | None:
    if isinstance(observation.chosen, Why):
        return NoPurchase(observation.chosen.reason, observation.chosen.message)
    if observation.observing:
        return NoPurchase("Observing", "Operator runs with --observe and does not buy.")
    if observation.hold is not None:
        return NoPurchase(
            "PurchasesPaused", f"All purchases are paused ({observation.hold}); tgp release resumes them."
        )
    return _pool_stop(observation.pool) if observation.pool is not None else None


def _pool_stop(pool: OwningPool) -> NoPurchase | None:
    """Without its pool its limits are unknown, and nothing would terminate a machine that is no longer needed."""
    if pool.unreadable:
        why = f"GPUNodePool {pool.key} was written by a newer version; upgrade the operator."
        return NoPurchase("NodePoolUnreadable", why)
    if pool.value is None:
        why = f"GPUNodePool {pool.key}, which created this request, does not exist, so nothing is bought."
        return NoPurchase("NodePoolNotFound", why)
    if pool.deleting:
        return NoPurchase("NodePoolDeleting", f"GPUNodePool {pool.key} is being deleted, so nothing is bought.")
    if pool.value.spec.mode == "Observe":
        return NoPurchase(
            "NodePoolObserving", f"GPUNodePool {pool.key} only observes (spec.mode), so nothing is bought."
        )
    return None


def _invalid(record: KubeObject[GPURequest], chosen: Chosen) -> NoPurchase | None:
    """What the CRD could not refuse."""
    assert record.value is not None, "an unreadable request is not reconciled"
    problems = request_problems(record.value)
    if chosen.name != IMPLICIT:  # made by the operator: there are no rules of an administrator
        problems += request_against_class(record.value, chosen.value)
    return NoPurchase("InvalidSpec", listed(problems)) if problems else None


def _distrusted(observation: RequestObservation) -> NoPurchase | None:
    """A reservation is not ordered where lists contradict the Nodes."""
    return NoPurchase("ProviderInconsistent", observation.distrusted) if observation.distrusted else None


def _over_limit(observation: RequestObservation, attempt: Attempt) -> NoPurchase | None:
    """Limits may have been lowered, and other machines become more expensive, since it was reserved."""
    chosen = observation.chosen
    if not isinstance(chosen, Chosen):
        return None
    wanted = reservation_of(plain_uid(observation.record.uid_text), attempt)
    if why := shortage(chosen.value.spec.limits, observation.held, wanted):
        return NoPurchase("LimitReached", f"Class {chosen.name}: {why}")
    pool = observation.pool
    if pool is not None and pool.value is not None:
        why = shortage(pool.value.spec.limits, observation.held_of_pool, wanted)
    return NoPurchase("LimitReached", f"Pool {pool.key}: {why}") if pool is not None and why else None
