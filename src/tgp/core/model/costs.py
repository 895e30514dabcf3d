"""What attempts have cost: the billed price times the time a provider confirmed, in whole micro-dollars.

An estimate of the bill, never below it by more than what no price includes (traffic, a disk kept after a stop). An
attempt that no provider ever confirmed cost nothing. A running machine is counted to the instant; a provider's billing
step counts once a machine is gone.

`spent_by` is the one number for a request, and `class_spent` for a class: every status, table and screen shows these.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tgp.api.field_error import Invalid
from tgp.api.nodeclass import GPUNodeClassStatus
from tgp.api.request import Attempt, GPURequest, GPURequestStatus
from tgp.api.values import microusd, usd
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.spend import INSTANT, SpendEntry

HOUR = timedelta(hours=1)
MOST_MICROUSD = 10**15 - 1  # the largest amount that a dollar field holds: anything above is an error
POOL_KIND = "GPUNodePool"
POOL_LABEL = "tgp.io/nodepool"
REPLACED_PRICE = "tgp.io/replaced-hourly-price"  # of a request: dollars an hour of the machines it is cheaper than


def hourly_of(attempt: Attempt) -> int:
    """As the provider bills; else the ordered price. 0: the record has no price."""
    ordered = attempt.offer.hourly_price if attempt.offer is not None else None
    return next((amount for text in (attempt.hourly_price, ordered) if (amount := read_amount(text)) is not None), 0)


def reserved_of(attempt: Attempt) -> int:
    """The ordered price, whatever is billed. 0: the record has no price."""
    return (read_amount(attempt.offer.hourly_price) if attempt.offer is not None else None) or 0


def most_believed(attempt: Attempt) -> int:
    """The highest price that a list may report without further proof: the ordered one, or a later confirmed one."""
    return max(reserved_of(attempt), hourly_of(attempt))


def cost_of(attempt: Attempt, until: datetime, step: timedelta = INSTANT) -> int:
    """From its confirmation until then, or until its end if that came first; a begun `step` of time counts whole."""
    if attempt.launched_at is None:
        return 0
    ended = until if attempt.ended_at is None else min(until, attempt.ended_at)
    steps = max(0, -((attempt.launched_at - ended) // step))  # both divisions round up
    billed = steps * (step // INSTANT)
    return min(-(-hourly_of(attempt) * billed // (HOUR // INSTANT)), MOST_MICROUSD)


def spent(attempts: Iterable[Attempt], now: datetime) -> int:
    """By all attempts together: the recorded cost of those that ended, and the running one until now."""
    return min(sum(_settled(attempt, now, INSTANT) for attempt in attempts), MOST_MICROUSD)


def spent_by(status: GPURequestStatus, now: datetime) -> int:
    """By a request until now. Never less than its status says: the oldest attempts are not kept there."""
    return max(spent(status.attempts, now), read_amount(status.spent) or 0)


def class_spent(status: GPUNodeClassStatus, now: datetime) -> int:
    """By a class until now: what its status says, and what its machines have cost since that was written."""
    recorded = read_amount(status.total_cost) or 0
    if status.cost_as_of is None or now <= status.cost_as_of:
        return recorded
    return recorded + (read_amount(status.hourly_cost) or 0) * ((now - status.cost_as_of) // INSTANT) // (
        HOUR // INSTANT
    )


def priced(attempts: Iterable[Attempt]) -> tuple[Attempt, ...]:
    """Of each launched attempt only what its cost depends on."""
    return tuple(
        Attempt(
            number=each.number,
            token=each.token,
            hourly_price=usd(hourly_of(each)),
            launched_at=each.launched_at,
            ended_at=each.ended_at,
            spent=each.spent,
        )
        for each in attempts
        if each.launched_at is not None
    )


def entry_of(record: KubeObject[GPURequest], attempt: Attempt, step: timedelta = INSTANT) -> SpendEntry | None:
    """For the spend record, from an attempt that ended; None: it never had a machine, so there is nothing to record.

    The same attempt always gives the same entry.
    """
    assert attempt.ended_at is not None, "a running attempt has no final cost"
    if attempt.launched_at is None:
        return None
    offer = attempt.offer
    return SpendEntry(
        uid=record.uid_text,
        attempt=attempt.number,
        request=str(record.key),
        pool=pool_of(record),
        node_class=class_of(record),
        provider=offer.provider if offer is not None else "",
        gpu=(offer.gpu_type or "") if offer is not None else "",
        gpus=(offer.gpu_count or 0) if offer is not None else 0,
        instance=attempt.instance_id or "",
        began=attempt.launched_at.astimezone(UTC),
        ended=max(attempt.launched_at, attempt.ended_at).astimezone(UTC),
        microusd=_settled(attempt, attempt.ended_at, step),
        spot=offer is not None and offer.spot,
        lost=attempt.outcome == "Lost",
        replaced_microusd=_replaced(record, attempt),
    )


def _replaced(record: KubeObject[GPURequest], attempt: Attempt) -> int | None:
    """What the machines that it replaced would have cost from when it was Ready until its end; None: there are none."""
    hourly = read_amount(record.annotations.get(REPLACED_PRICE))
    if hourly is None or attempt.launched_at is None or attempt.ended_at is None:
        return None
    ready = record.value.status.ready_at if record.value is not None else None
    if ready is None or ready < attempt.launched_at:
        return 0
    length = max(attempt.ended_at - ready, timedelta(0)) // INSTANT
    return min(hourly * length // (HOUR // INSTANT), MOST_MICROUSD)


def divided(amount: int, by: Sequence[int]) -> list[int]:
    """In proportion, to the micro-dollar: the parts add up to the amount. Equal parts where all weights are 0."""
    weights = list(by) if sum(by) else [1] * len(by)
    ends = [amount * sum(weights[: place + 1]) // sum(weights) for place in range(len(weights))]
    return [end - begin for begin, end in pairwise([0, *ends])]


def class_of(record: KubeObject[GPURequest]) -> str:
    """The class it was reserved with; without a reservation the class it names; empty: neither."""
    if record.value is None:
        said = record.status.get("nodeClass")
        return said if isinstance(said, str) else ""
    ref = record.value.spec.node_class_ref
    return record.value.status.node_class or (ref.name if ref is not None else "")


def pool_of(record: KubeObject[GPURequest]) -> str:
    """namespace/name of the pool that wrote it; empty: a user did."""
    owner = next((owner.name for owner in record.owners if owner.kind == POOL_KIND), "")
    name = owner or record.labels.get(POOL_LABEL, "")
    return f"{record.key.namespace}/{name}" if name else ""


def _settled(attempt: Attempt, now: datetime, step: timedelta) -> int:
    written = read_amount(attempt.spent) if attempt.ended_at is not None else None
    return cost_of(attempt, now, step) if written is None else written


def read_amount(dollars: str | None) -> int | None:
    """None: absent, or not readable as an amount."""
    if not dollars:
        return None
    try:
        return microusd(dollars, "status")
    except Invalid:
        return None
