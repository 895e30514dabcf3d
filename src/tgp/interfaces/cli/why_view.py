"""The state of a request on one screen: what it waits for, until when, what would help, what it costs."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Group
from rich.text import Text

from tgp.api.request import Attempt, GPURequest
from tgp.api.values import NEVER, rfc3339
from tgp.core.model.attempts import open_attempt
from tgp.core.model.gpus import family_members
from tgp.core.model.money import amount, dollars, total
from tgp.core.requests.purchase import ALLOW_UNTRUSTED, Purchase
from tgp.core.requests.purchase_stops import NEEDS_USER
from tgp.interfaces.cli.foreign import foreign_provider
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import TableColumn, table, usd, wrapped
from tgp.interfaces.cli.timeline import (
    OVER,
    RequestTimeline,
    condition_of,
    is_true,
    money,
    offer_words,
    sentences,
    timeline_of,
)
from tgp.interfaces.cli.watch_view import when_words
from tgp.interfaces.documents import API_VERSION
from tgp.interfaces.documents.machines import AttemptItem, RequestReason
from tgp.interfaces.terminal.snapshot import age, moment, plain
from tgp.services.request_documents import Enquiry, Holder

LABEL = 12  # columns of a line's first word
ATTEMPTS_SHOWN = 8  # the newest; all are in the status
HOLDERS_SHOWN = 8  # the most expensive
LONGEST_OFFER = 56
DELETE = "kubectl delete gpurequest {name} -n {namespace}"
LOOK_AT_CLASS = "kubectl describe gpunodeclass {node_class}"
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
_PASSES = "nothing to do: the operator continues without help"

# What removes the reason, if its message does not say so; by reason. The text may name the request.
_HELPS = {
    "PurchasesPaused": "tgp release, once the reason for the pause is gone",
    "Suspended": "tgp release class/{node_class}, once the reason for the suspension is gone",
    "InvalidSpec": f"a corrected request: {DELETE}, and create it again",
    "Restored": f"{DELETE}, and create it again if the machine is still needed",
    "NotInClass": "another class (kubectl get gpunodeclasses, then tgp rent --class NAME), "
    "or this GPU in the class's instanceRequirements.gpuTypes",
    "SpotNotAllowed": f"the class's instanceRequirements.spotAllowed; or {DELETE}, and rent again without --spot",
    "NamespaceNotAllowed": "a namespace that the class serves (its allowedNamespaces), or another class",
    "NodeClassNotFound": "that class; or another class, which needs a new request: "
    f"{DELETE}, and tgp rent --class NAME",
    "SeveralDefaultClasses": f"a request that names its class: {DELETE}, and tgp rent --class NAME",
    "KindsOutdated": "newer CRDs: tgp crds apply",
    "NodeClassNotReady": f"a ready class; its conditions name the problem: {LOOK_AT_CLASS}",
    "NodeClassDeleting": f"another class: {DELETE}, and tgp rent --class NAME",
    "NodeClassUnreadable": f"a ready class; its conditions name the problem: {LOOK_AT_CLASS}",
    "ProviderInconsistent": "an hour of consistent lists; or, if the provider's console shows that the lists are "
    "right, the command in the message",
    "ProviderUnavailable": f"the provider's key, balance or answer: {LOOK_AT_CLASS}",
    "Observing": "an operator that runs without --observe",
    "DevicePluginMissing": "a DaemonSet with the GPU's device plugin that tolerates the node's taints",
    **dict.fromkeys(
        (
            "OffersNotSeen",
            "NodeClassNotSeen",
            "Waiting",
            "Ordering",
            "BackingOff",
            "ProviderBusy",
            "OrderQueued",
            "LaunchOutcomePending",
            "UnclaimedInstance",
        ),
        _PASSES,
    ),
}
_NEXT = {
    "LimitReached": "kubectl get gpurequests -A",
    "DevicePluginMissing": "kubectl get daemonsets -A",
    "KindsOutdated": "tgp crds apply",
    "InvalidSpec": DELETE,
    "Restored": DELETE,
    "NodeClassNotFound": "kubectl get gpunodeclasses",
    "SeveralDefaultClasses": "kubectl get gpunodeclasses",
    "NotInClass": "kubectl get gpunodeclasses",
    **dict.fromkeys(
        ("NodeClassNotReady", "NodeClassDeleting", "NodeClassUnreadable", "NamespaceNotAllowed", "ProviderUnavailable"),
        LOOK_AT_CLASS,
    ),
}


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
    if (since := _since(timeline)) is not None:
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


def obstacles(asked: Enquiry) -> tuple[str, ...]:
    """What blocks the request whatever the market offers, and the command that removes it."""
    found: list[str] = []
    if asked.request.status.phase in OVER:
        return ()
    if asked.held:
        found.append(f"all purchases are paused: {asked.hold or 'no reason was given'}. Resume: tgp release")
    if asked.node_class is not None and asked.node_class.spec.suspend:
        found.append(f"class {asked.class_name} is suspended. Resume: tgp release class/{asked.class_name}")
    found += [f"class {asked.class_name}: {gap}" for gap in asked.gaps]
    if is_true(asked.request, "Restored"):
        restored = condition_of(asked.request, "Restored")
        assert restored is not None
        found.append(f"the request does not buy: {restored.message}")
    if asked.node_class is not None and (foreign := foreign_provider(asked.request.spec, asked.node_class)):
        found.append(foreign)
    reachable = condition_of(asked.request, "ProviderReachable")
    if reachable is not None and reachable.status == "False":
        found.append(f"the provider does not answer ({reachable.reason}): {reachable.message}")
    return tuple(found)


def _ignored(asked: Enquiry) -> str | None:
    """Settings of the request that have no effect; None: there are none."""
    found = condition_of(asked.request, "MeshConfigIgnored")
    return (
        found.message
        if found is not None and found.status == "True" and asked.request.status.phase not in OVER
        else None
    )


def advice(timeline: RequestTimeline, asked: Enquiry) -> tuple[str, ...]:
    """What the user could do, derived from the reason."""
    spec, cause = asked.request.spec, timeline.cause
    if timeline.over or cause is None:
        return ()
    words = f"{cause.reason} {timeline.message}"
    found = []
    if "maxHourlyPrice" in words:
        found.append(
            "a higher price: maxHourlyPrice is immutable, so delete the request and rent again with another --max-price"
        )
    if ALLOW_UNTRUSTED in words:
        found.append(
            "community hosts, if the pods may run on untrusted machines: "
            f"kubectl label namespace {timeline.key.namespace} {ALLOW_UNTRUSTED}=true"
        )
    if asked.node_class is not None and foreign_provider(spec, asked.node_class):
        found.append(
            f"that provider in the class: kubectl edit gpunodeclass {asked.class_name}; or delete the request and rent "
            "again with another --provider or --class"
        )
    if "limits." in words or "Limit" in cause.reason:
        found.append(
            "terminating a machine of the class (listed below), or a higher limit: "
            f"kubectl edit gpunodeclass {asked.class_name}"
        )
    known = _HELPS.get(cause.reason)
    if known is _PASSES and obstacles(asked):
        known = None  # an API key, a Secret or a provider's answer is missing: waiting does not add it
    if known is not None and not timeline.ready:
        found.append(_named(known, timeline, asked))
    if cause.reason == "PodsLeft" or (timeline.phase == "Terminating" and condition_false(asked.request, "Drained")):
        drained = condition_of(asked.request, "Drained")
        found.append(
            "the end of the pods on the machine"
            + (f": {drained.message}" if drained is not None and drained.message else "")
        )
    if timeline.phase == "Pending" and not found and (market := _market(asked)):
        found.append(f"an offer that fits: {market} --join talos")
    return tuple(found)


def _named(words: str, timeline: RequestTimeline, asked: Enquiry) -> str:
    return words.format(name=timeline.key.name, namespace=timeline.key.namespace, node_class=asked.class_name)


def _market(asked: Enquiry) -> str:
    """The command that lists matching offers; empty: unknown GPU."""
    spec = asked.request.spec
    if not spec.gpu_type or not family_members(spec.gpu_type):
        return ""
    return f"tgp offers --gpu {spec.gpu_type}" + (f" --provider {spec.provider}" if spec.provider else "")


def condition_false(request: GPURequest, name: str) -> bool:
    condition = condition_of(request, name)
    return condition is not None and condition.status == "False"


def next_command(timeline: RequestTimeline, asked: Enquiry) -> str:
    if asked.held and not timeline.over:
        return "tgp release"
    if asked.node_class is not None and asked.node_class.spec.suspend and not timeline.over:
        return f"tgp release class/{asked.class_name}"
    if timeline.over:
        return f"kubectl delete gpurequest {timeline.key.name} -n {timeline.key.namespace}"
    if timeline.cause is not None and timeline.cause.reason in _NEXT:
        return _named(_NEXT[timeline.cause.reason], timeline, asked)
    if timeline.phase == "Pending" and (market := _market(asked)):
        return market
    return f"tgp watch {timeline.key}"


def as_document(asked: Enquiry) -> RequestReason:
    """For programs; fields are added, never renamed."""
    timeline = timeline_of(asked.request, asked.now)
    cause, since = timeline.cause, _since(timeline)
    return RequestReason(
        apiVersion=API_VERSION,
        kind="RequestReason",
        namespace=timeline.key.namespace,
        name=timeline.key.name,
        at=rfc3339(asked.now),
        phase=timeline.phase,
        condition=cause.type if cause is not None else None,
        reason=cause.reason if cause is not None else None,
        message=plain(timeline.message),
        since=rfc3339(since) if since is not None else None,
        until=rfc3339(timeline.ends_at) if timeline.ends_at is not None else None,
        obstacles=[plain(words) for words in obstacles(asked)],
        advice=[plain(words) for words in advice(timeline, asked)],
        usdPerHour=usd(timeline.hourly_microusd),
        usdSpent=usd(timeline.spent_microusd),
        nodeClass=asked.class_name or None,
        purchasesPaused=asked.held,
        suspended=bool(asked.node_class is not None and asked.node_class.spec.suspend),
        attempts=[_attempt_item(attempt) for attempt in timeline.attempts],
        holders=None
        if asked.holders is None
        else [
            {
                "namespace": each.key.namespace,
                "name": each.key.name,
                "phase": each.phase,
                "usdPerHour": usd(each.hourly_microusd),
            }
            for each in asked.holders
        ],
        next=next_command(timeline, asked),
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


def _since(timeline: RequestTimeline) -> datetime | None:
    if timeline.cause is not None and timeline.cause.last_transition_time is not None:
        return timeline.cause.last_transition_time
    return timeline.steps[0].at


def _until(timeline: RequestTimeline, asked: Enquiry) -> str:
    if timeline.over:
        return "you delete it; until then it stays as a cost record"
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


def _attempt_item(attempt: Attempt) -> AttemptItem:
    return {
        "number": attempt.number,
        "offer": offer_words(attempt.offer),
        "outcome": attempt.outcome,
        "message": plain(attempt.message or ""),
        "reservedAt": rfc3339(attempt.reserved_at) if attempt.reserved_at is not None else None,
        "launchedAt": rfc3339(attempt.launched_at) if attempt.launched_at is not None else None,
        "endedAt": rfc3339(attempt.ended_at) if attempt.ended_at is not None else None,
        "usdPerHour": usd(money(attempt.hourly_price)),
        "usdSpent": usd(money(attempt.spent)),
    }


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
