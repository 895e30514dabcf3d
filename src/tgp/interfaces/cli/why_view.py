"""The state of a request on one screen: what it waits for, until when, what would help, what it costs."""

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.text import Text

from tgp.api.request import Attempt
from tgp.api.values import NEVER, go_duration
from tgp.core.model.attempts import is_owned, machine_name, open_attempt, provider_words
from tgp.core.model.money import amount, dollars, total
from tgp.core.reports.request_timeline import (
    OVER,
    RequestTimeline,
    condition_of,
    money,
    offer_words,
    sentences,
    timeline_of,
)
from tgp.core.requests.lifecycle import LONGEST_ASK
from tgp.core.requests.purchase import Purchase
from tgp.core.requests.purchase_stops import NEEDS_USER
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import TableColumn, table, wrapped
from tgp.interfaces.cli.watch_view import when_words
from tgp.interfaces.terminal.snapshot import age, moment
from tgp.services.documents.requests import since_of
from tgp.services.request_advice import (
    TERMINATING,
    advice,
    condition_false,
    next_command,
    obstacles,
    termination_fails,
)
from tgp.services.request_answers import Enquiry, Holder

LABEL = 12  # columns of a line's first word
ATTEMPTS_SHOWN = 8  # the newest; all are in the status
HOLDERS_SHOWN = 8  # the most expensive
LONGEST_OFFER = 56
POOL = "GPUNodePool"
# What ends the wait, by reason; for those that only a user removes, and for reasons of newer versions, see `_until`.
AWAITED = {
    "AccountNotWritten": "the provider's account is recorded",
    "BackingOff": "the pause after the failed attempt is over",
    "KindsOutdated": "the CRDs are updated",
    "LaunchOutcomePending": "the operator knows whether the last order launched a machine",
    "LimitReached": "the limits have room",
    "NamespaceNotSeen": "the operator has read the namespace",
    "NoOfferFits": "an offer fits",
    "NodeClassCannotBuy": "the class can buy",
    "NodeClassDeleting": "the request is deleted, and created again for another class",
    "NodeClassNotReady": "the class is ready",
    "NodeClassNotSeen": "the operator has read the class",
    "NodePoolDeleting": "the request is deleted, as its GPUNodePool is",
    "NodePoolNotFound": "the request is deleted: its GPUNodePool does not exist",
    "NodePoolObserving": "the GPUNodePool launches machines again (spec.mode)",
    "NodePoolUnreadable": "the operator is upgraded",
    "Observing": "the operator runs without --observe",
    "OffersNotSeen": "the providers have listed their offers",
    "OrderQueued": "the orders before it are sent",
    "Ordering": "the order is sent",
    "Preparing": "the order is prepared",
    "ProviderBusy": "the provider accepts orders again",
    "ProviderInconsistent": "the provider's lists are consistent for an hour",
    "ProviderUnavailable": "a provider of the class can be used",
    "PurchasesPaused": "purchases are resumed (tgp release)",
    "Restored": "the request is deleted: a restored copy never buys",
    "Returning": "the machine is terminated",
    "SpendRecordFailed": "the cost is recorded",
    "Suspended": "the class is no longer suspended",
    "UnclaimedInstance": "the machine of the earlier attempt is terminated",
    "Waiting": "the providers have listed their machines once more",
}
MAY_COST = frozenset({"LaunchOutcomePending", "UnclaimedInstance", "Returning"})


def render(asked: Enquiry, width: int) -> Group:
    timeline = timeline_of(asked.request, asked.now)
    lines = [_heading(timeline, asked), Text()]
    for label, words in rows_of(timeline, asked):
        lines += _line(label, words, width)
    if timeline.attempts:
        lines += [Text(), *_attempts(timeline.attempts, width)]
    if _limits(asked) and any(each.key != timeline.key for each in asked.holders or ()):
        lines += [Text(), *_holders(asked.holders or (), width)]
    lines += [Text(), *next_lines(next_command(timeline, asked))]
    return Group(*lines)


def rows_of(timeline: RequestTimeline, asked: Enquiry) -> Iterator[tuple[str, str]]:
    """The answer, line by line: a label and a sentence."""
    label = "is over" if timeline.over else "runs" if timeline.ready else "waits for"
    for words in sentences(_what(timeline, asked)):
        yield label, words
        label = ""
    if (since := since_of(timeline)) is not None:
        yield "since", f"{moment(since, asked.now)}, {age(asked.now - since)} ago"
    yield "until", _until(timeline, asked)
    if words := _market_now(timeline, asked):
        yield "market now", words
    for words in obstacles(asked):
        yield "stopped by", words
    if (ignored := _ignored(asked)) is not None:
        yield "no effect", ignored
    for words in advice(timeline, asked):
        yield "would help", words
    yield "cost", cost_words(timeline)
    if asked.class_name:
        yield "class", _class_words(asked)


def _ignored(asked: Enquiry) -> str | None:
    """Settings of the request that have no effect; None: there are none."""
    found = condition_of(asked.request, "MeshConfigIgnored")
    return (
        found.message
        if found is not None and found.status == "True" and asked.request.status.phase not in OVER
        else None
    )


def _heading(timeline: RequestTimeline, asked: Enquiry) -> Text:
    style = "red" if timeline.failed else "green" if timeline.ready or timeline.over else "yellow"
    spec = asked.request.spec
    wanted = f"{spec.gpu_count}x {spec.gpu_type or (spec.offer.instance_type if spec.offer else 'a GPU')}"
    wanted += " spot" if spec.spot else ""
    wanted += f" up to {dollars(money(spec.max_hourly_price) or 0)}/h" if spec.max_hourly_price else ""
    wanted += f" from {spec.provider}" if spec.provider else ""
    places = [each for each in (spec.region, *spec.regions) if each]
    wanted += f" in {' or '.join(dict.fromkeys(places))}" if places else ""
    reason = f" ({timeline.cause.reason})" if timeline.cause is not None else ""
    return Text.assemble(
        (f"request {timeline.key}", "bold"),
        ": ",
        (f"{timeline.phase}{reason}", style),
        (f"   {wanted}", "dim"),
        no_wrap=True,
    )


def _line(label: str, words: str, width: int) -> list[Text]:
    first = f"{label:<{LABEL}}"
    lines = wrapped(words, width, first=first, rest=" " * LABEL)
    lines[0].stylize("dim", 0, len(first))
    return lines


def _what(timeline: RequestTimeline, asked: Enquiry) -> str:
    cause = timeline.cause
    if cause is None:
        if asked.request.status.phase is None:
            return (
                "the operator to reconcile the request for the first time; does it run? kubectl get lease -n tgp-system"
            )
        return timeline.message or "unknown: the status has no message"
    return timeline.message or cause.message or cause.reason


def _until(timeline: RequestTimeline, asked: Enquiry) -> str:
    if timeline.over:
        return "you delete it; until then it stays as a cost record"
    if timeline.phase == TERMINATING:
        return _until_gone(timeline, asked)
    if timeline.ends_at is not None:
        return f"{when_words(timeline.ends_at, asked.now)}: then the machine is terminated"
    if timeline.hourly_microusd is None and timeline.phase == "Pending":
        reason = timeline.cause.reason if timeline.cause is not None else ""
        awaited = "the cause is corrected" if reason in NEEDS_USER else AWAITED.get(reason, "the cause is gone")
        return f"{awaited}; {'until then a machine may be billed' if reason in MAY_COST else 'waiting costs nothing'}"
    if pool := next((owner.name for owner in asked.request.metadata.owner_references if owner.kind == POOL), ""):
        return f"GPUNodePool {pool} deletes it (spec.disruption of the pool says when)"
    spec = asked.request.spec
    ends = ((spec.max_lifetime or spec.ttl or "24h", "after {}"), (spec.idle_timeout, "after {} without a pod"))
    said = " or ".join(words.format(length) for length, words in ends if length != NEVER.value)
    return f"it is terminated, {said}" if said else "you delete it; no lifetime or idle limit is set"


def _until_gone(timeline: RequestTimeline, asked: Enquiry) -> str:
    """Of a request that is terminating."""
    attempt = open_attempt(timeline.attempts)
    if attempt is None:
        return "its Node and its records are removed"
    machine = machine_name(attempt)
    gone = f"{machine} is off" if is_owned(attempt) else f"{provider_words(attempt)} confirms that {machine} is gone"
    if condition_false(asked.request, "Drained"):
        return f"its pods have ended, and {gone}"
    if not termination_fails(timeline):
        return gone
    every = f"at least every {go_duration(LONGEST_ASK)}"
    if is_owned(attempt):
        return f"{gone}; the request to its scaleDownEndpoint is repeated {every}"
    return f"{gone}; termination is requested {every}"


def _market_now(timeline: RequestTimeline, asked: Enquiry) -> str:
    """What the market offers at this moment, if the status says something else; empty: the same."""
    plan = asked.plan
    if plan is None:
        return ""
    if isinstance(plan.choice, Purchase):
        offer = plan.choice.offer
        fits = f"{offer.gpu_count}x {offer.gpu} at {dollars(plan.choice.hourly_microusd)}/h from {offer.provider} fits"
        return f"{fits}, but {plan.unwilling}" if plan.unwilling else fits
    return "" if plan.choice.message == timeline.message else plan.choice.message


def cost_words(timeline: RequestTimeline) -> str:
    attempt = open_attempt(timeline.attempts)
    if attempt is not None and attempt.outcome is None:
        price = timeline.hourly_microusd
        reserved = f"{dollars(price)} an hour is reserved" if price is not None else "a machine is reserved"
        return f"{reserved}; no bill is known yet; {total(timeline.spent_microusd)} so far"
    so_far = f"{total(timeline.spent_microusd)} {'in total' if timeline.over else 'so far'}"
    if timeline.hourly_microusd is None:
        return f"$0.00 an hour now; {so_far}" if not timeline.over else so_far
    return f"{dollars(timeline.hourly_microusd)} an hour now; about {so_far}"


def _limits(asked: Enquiry) -> bool:
    return asked.node_class is not None and asked.node_class.spec.limits is not None


def _class_words(asked: Enquiry) -> str:
    if asked.node_class is None:
        return f"{asked.class_name}, which does not exist or may not be read"
    limits, parts = asked.node_class.spec.limits, [asked.class_name]
    if limits is None:
        return f"{asked.class_name}, without limits"
    count = len(asked.holders) if asked.holders is not None else asked.node_class.status.active_nodes
    hourly = (
        sum(each.hourly_microusd for each in asked.holders)
        if asked.holders is not None
        else money(asked.node_class.status.hourly_cost) or 0
    )
    if limits.max_nodes is not None:
        parts.append(f"{count} of {limits.max_nodes} machines")
    if limits.max_hourly_cost is not None:
        most = money(limits.max_hourly_cost) or 0
        parts.append(f"{dollars(hourly)} of {dollars(most)} an hour")
    return ", ".join(parts)


def _attempts(attempts: Sequence[Attempt], width: int) -> list[Text]:
    shown = attempts[-ATTEMPTS_SHOWN:]
    columns = [
        TableColumn("ATTEMPT", tuple((str(each.number), "") for each in shown), right=True),
        TableColumn(
            "AT", tuple((f"{each.reserved_at:%H:%M:%SZ}" if each.reserved_at else "", "dim") for each in shown)
        ),
        TableColumn("OFFER", tuple((offer_words(each.offer), "") for each in shown), longest=LONGEST_OFFER),
        TableColumn("OUTCOME", tuple(_outcome(each) for each in shown)),
        TableColumn("COST", tuple((f"${each.spent}" if each.spent else "", "") for each in shown), right=True),
        TableColumn("MESSAGE", tuple((each.message or "", "dim") for each in shown)),
    ]
    return table(columns, width)


def _outcome(attempt: Attempt) -> tuple[str, str]:
    if attempt.outcome is None:
        return "unknown yet", "yellow"
    return attempt.outcome, "green" if attempt.outcome in {"Launched", "Terminated"} else "red"


def _holders(holders: Sequence[Holder], width: int) -> list[Text]:
    costliest = sorted(holders, key=lambda each: (-each.hourly_microusd, each.key))[:HOLDERS_SHOWN]
    columns = [
        TableColumn("HELD BY", tuple((str(each.key), "") for each in costliest)),
        TableColumn("PHASE", tuple((each.phase, "") for each in costliest)),
        TableColumn("$/H", tuple((amount(each.hourly_microusd), "") for each in costliest), right=True),
    ]
    lines = table(columns, width)
    if rest := len(holders) - len(costliest):
        lines.append(Text(f"and {rest} more", style="dim"))
    return lines
