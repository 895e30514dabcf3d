"""Why nothing may be bought for a request now, whatever is on sale."""

from tgp.api.request import Attempt, GPURequest
from tgp.core.classes.default_class import IMPLICIT, Chosen, Why
from tgp.core.classes.nodeclass import listed
from tgp.core.classes.semantic_validation import request_against_class, request_problems
from tgp.core.inventory.limits import reservation_of, shortage
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.token import plain_uid
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.purchase import NoPurchase


def purchase_stop(observation: RequestObservation) -> NoPurchase | None:
    """Before an offer is chosen; None: nothing speaks against it."""
    return _stop(observation) or (
        _invalid(observation.record, observation.chosen) if isinstance(observation.chosen, Chosen) else None
    )


def order_stop(observation: RequestObservation, attempt: Attempt) -> NoPurchase | None:
    """Before what was reserved is ordered; None: nothing speaks against it."""
    return _stop(observation) or _distrusted(observation) or _over_limit(observation, attempt)


def _stop(observation: RequestObservation) -> NoPurchase | None:
    if isinstance(observation.chosen, Why):
        return NoPurchase(observation.chosen.reason, observation.chosen.message)
    if observation.observing:
        return NoPurchase("Observing", "Operator runs with --observe and does not buy.")
    if observation.hold is not None:
        return NoPurchase("PurchasesPaused", f"All purchases are paused ({observation.hold}). To resume: tgp release")
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
    why = shortage(chosen.value.spec.limits, observation.held, wanted)
    return NoPurchase("LimitReached", f"class {chosen.name}: {why}") if why else None
