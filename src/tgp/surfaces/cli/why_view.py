"""Why a request is where it is, on one screen: what it waits for, until when, what would change it, what it costs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Group
from rich.text import Text

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.values import rfc3339
from tgp.core.model.attempts import open_attempt
from tgp.core.model.gpus import members
from tgp.core.model.key import Key
from tgp.core.rules.nodeclass import Gap
from tgp.core.rules.purchase import ALLOW_UNTRUSTED, Buy
from tgp.surfaces.cli.foreign import foreign_provider
from tgp.surfaces.cli.next_step import next_lines
from tgp.surfaces.cli.output import Column, document, dollars, table, usd, wrapped
from tgp.surfaces.cli.rent_view import Plan
from tgp.surfaces.cli.story import OVER, Story, condition_of, is_true, money, offer_words, sentences, story_of, total
from tgp.surfaces.cli.watch_view import ends_words, moment
from tgp.surfaces.terminal.scene import age, plain

LABEL = 12  # columns of a line's first word
ATTEMPTS_SHOWN = 8  # the newest; all are in the status
HOLDERS_SHOWN = 8  # the dearest
LONGEST_OFFER = 56
ANEW = "kubectl delete gpurequest {name} -n {namespace}"
LOOK_AT_CLASS = "kubectl describe gpunodeclass {node_class}"
_PASSES = "nothing that anybody has to do: it goes on by itself"

# What takes the reason away, where its message does not say: by the reason, in words that may name the request.
_HELPS = {
    "Held": "tgp release, once whoever holds agrees",
    "Suspended": "tgp release class/{node_class}, once whoever holds it agrees",
    "InvalidSpec": f"a request that says it right: {ANEW}, and write it anew",
    "Restored": f"{ANEW}, and write it anew if the machine is still wanted",
    "NotInClass": "another class (kubectl get gpunodeclasses, then tgp rent --class NAME), "
    "or this GPU in the class's instanceRequirements.gpuTypes",
    "SpotNotAllowed": f"the class's instanceRequirements.spotAllowed; or {ANEW}, and rent again without --spot",
    "NamespaceNotAllowed": "a namespace that the class serves (its allowedNamespaces), or another class",
    "NodeClassNotFound": "that class; or another one, which cannot be named on this request any more: "
    f"{ANEW}, and tgp rent --class NAME",
    "SeveralDefaultClasses": f"a request that names its class: {ANEW}, and tgp rent --class NAME",
    "NodeClassNotReady": f"its class, mended by whoever looks after it: {LOOK_AT_CLASS}",
    "NodeClassDeleting": f"another class: {ANEW}, and tgp rent --class NAME",
    "NodeClassUnreadable": f"its class, mended by whoever looks after it: {LOOK_AT_CLASS}",
    "ProviderInconsistent": "an hour of consistent lists; or, once its console shows that they are right, the command "
    "that the message names",
    "ProviderClosed": f"the provider's key, balance or answer: {LOOK_AT_CLASS}",
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
            "Settling",
            "Strays",
        ),
        _PASSES,
    ),
}
_NEXT = {
    "LimitReached": "kubectl get gpurequests -A",
    "DevicePluginMissing": "kubectl get daemonsets -A",
    "InvalidSpec": ANEW,
    "Restored": ANEW,
    "NodeClassNotFound": "kubectl get gpunodeclasses",
    "SeveralDefaultClasses": "kubectl get gpunodeclasses",
    "NotInClass": "kubectl get gpunodeclasses",
    **dict.fromkeys(
        ("NodeClassNotReady", "NodeClassDeleting", "NodeClassUnreadable", "NamespaceNotAllowed", "ProviderClosed"),
        LOOK_AT_CLASS,
    ),
}


@dataclass(frozen=True, slots=True)
class Holder:
    """One request that takes something of the class's limits."""

    key: Key
    phase: str
    hourly_microusd: int


@dataclass(frozen=True, slots=True)
class Enquiry:
    """All that an answer may look at."""

    request: GPURequest
    now: datetime  # by the API server's clock
    class_name: str = ""  # empty: it names none, and none was chosen yet
    node_class: GPUNodeClass | None = None  # None: there is none, or it may not be read
    hold: str = ""  # what `tgp hold` wrote; empty: nobody holds, or it may not be read
    held: bool = False
    holders: tuple[Holder, ...] | None = None  # of the class, this request too; None: they may not be listed
    gaps: tuple[Gap, ...] = ()  # what its class misses, looked at just now
    plan: Plan | None = None  # what would be bought now; None: it does not wait for a purchase


def render(asked: Enquiry, width: int) -> Group:
    story = story_of(asked.request, asked.now)
    lines = [_heading(story, asked), Text()]
    for label, words in rows_of(story, asked):
        lines += _line(label, words, width)
    if story.attempts:
        lines += [Text(), *_attempts(story.attempts, width)]
    if _limits(asked) and any(each.key != story.key for each in asked.holders or ()):
        lines += [Text(), *_holders(asked.holders or (), width)]
    lines += [Text(), *next_lines(next_command(story, asked))]
    return Group(*lines)


def rows_of(story: Story, asked: Enquiry) -> Iterator[tuple[str, str]]:
    """The answer, line by line: a label and a sentence."""
    label = "is over" if story.over else "runs" if story.ready else "waits for"
    for words in sentences(_what(story, asked)):
        yield label, words
        label = ""
    if (since := _since(story)) is not None:
        yield "since", f"{moment(since, asked.now)}, {age(asked.now - since)} ago"
    yield "until", _until(story, asked)
    if words := _market_now(story, asked):
        yield "market now", words
    for words in obstacles(asked):
        yield "stopped by", words
    if (inert := _inert(asked)) is not None:
        yield "no effect", inert
    for words in advice(story, asked):
        yield "would help", words
    yield "cost", _cost(story)
    if asked.class_name:
        yield "class", _class_words(asked)


def obstacles(asked: Enquiry) -> tuple[str, ...]:
    """What stands in its way whatever the market says, and who can take it away."""
    found: list[str] = []
    if asked.request.status.phase in OVER:
        return ()
    if asked.held:
        found.append(f"all purchases are held: {asked.hold or 'no reason was given'}. Release: tgp release")
    if asked.node_class is not None and asked.node_class.spec.suspend:
        found.append(f"class {asked.class_name} is suspended. Release: tgp release class/{asked.class_name}")
    found += [f"class {asked.class_name}: {gap}" for gap in asked.gaps]
    if is_true(asked.request, "Restored"):
        restored = condition_of(asked.request, "Restored")
        assert restored is not None
        found.append(f"it is a restored copy, and buys nothing: {restored.message}")
    if asked.node_class is not None and (foreign := foreign_provider(asked.request.spec, asked.node_class)):
        found.append(foreign)
    reachable = condition_of(asked.request, "ProviderReachable")
    if reachable is not None and reachable.status == "False":
        found.append(f"its provider cannot be asked ({reachable.reason}): {reachable.message}")
    return tuple(found)


def _inert(asked: Enquiry) -> str | None:
    """What it asks for in vain, although nothing waits for it; None: nothing."""
    found = condition_of(asked.request, "MeshConfigInert")
    return (
        found.message
        if found is not None and found.status == "True" and asked.request.status.phase not in OVER
        else None
    )


def advice(story: Story, asked: Enquiry) -> tuple[str, ...]:
    """What somebody could do about it, as far as the reason tells."""
    spec, telling = asked.request.spec, story.telling
    if story.over or telling is None:
        return ()
    words = f"{telling.reason} {story.message}"
    found = []
    if "maxHourlyPrice" in words:
        found.append(
            "a higher price: it cannot be changed on a request, so delete it and rent again, with another --max-price"
        )
    if ALLOW_UNTRUSTED in words:
        found.append(
            "hosts that anybody may own, if its pods may run there: "
            f"kubectl label namespace {story.key.namespace} {ALLOW_UNTRUSTED}=true"
        )
    if asked.node_class is not None and foreign_provider(spec, asked.node_class):
        found.append(
            f"that provider in the class: kubectl edit gpunodeclass {asked.class_name}; or delete it and rent again, "
            "with another --provider or --class"
        )
    if "limits." in words or "Limit" in telling.reason:
        found.append(
            "giving back a machine of the class (listed below), or a higher limit: "
            f"kubectl edit gpunodeclass {asked.class_name}"
        )
    known = _HELPS.get(telling.reason)
    if known is _PASSES and obstacles(asked):
        known = None  # a key, a Secret or a provider's answer is missing: that does not come by itself
    if known is not None and not story.ready:
        found.append(_named(known, story, asked))
    if telling.reason == "PodsLeft" or (story.phase == "Terminating" and condition_false(asked.request, "Drained")):
        drained = condition_of(asked.request, "Drained")
        found.append(drained.message if drained is not None and drained.message else "its pods to end")
    if story.phase == "Pending" and not found and (market := _market(asked)):
        found.append(f"an offer that fits: {market} --join talos")
    return tuple(found)


def _named(words: str, story: Story, asked: Enquiry) -> str:
    return words.format(name=story.key.name, namespace=story.key.namespace, node_class=asked.class_name)


def _market(asked: Enquiry) -> str:
    """Where to look for what it wants; empty: nobody sells that."""
    spec = asked.request.spec
    if not spec.gpu_type or not members(spec.gpu_type):
        return ""
    return f"tgp offers --gpu {spec.gpu_type}" + (f" --provider {spec.provider}" if spec.provider else "")


def condition_false(request: GPURequest, name: str) -> bool:
    condition = condition_of(request, name)
    return condition is not None and condition.status == "False"


def next_command(story: Story, asked: Enquiry) -> str:
    if asked.held and not story.over:
        return "tgp release"
    if asked.node_class is not None and asked.node_class.spec.suspend and not story.over:
        return f"tgp release class/{asked.class_name}"
    if story.over:
        return f"kubectl delete gpurequest {story.key.name} -n {story.key.namespace}"
    if story.telling is not None and story.telling.reason in _NEXT:
        return _named(_NEXT[story.telling.reason], story, asked)
    if story.phase == "Pending" and (market := _market(asked)):
        return market
    return f"tgp watch {story.key}"


def as_document(asked: Enquiry) -> dict[str, Any]:
    """For programs; fields are added, never renamed."""
    story = story_of(asked.request, asked.now)
    telling, since = story.telling, _since(story)
    return document(
        "RequestReason",
        namespace=story.key.namespace,
        name=story.key.name,
        at=rfc3339(asked.now),
        phase=story.phase,
        condition=telling.type if telling is not None else None,
        reason=telling.reason if telling is not None else None,
        message=plain(story.message),
        since=rfc3339(since) if since is not None else None,
        until=rfc3339(story.ends_at) if story.ends_at is not None else None,
        obstacles=[plain(words) for words in obstacles(asked)],
        advice=[plain(words) for words in advice(story, asked)],
        usdPerHour=usd(story.hourly_microusd),
        usdSpent=usd(story.spent_microusd),
        nodeClass=asked.class_name or None,
        held=asked.held,
        suspended=bool(asked.node_class is not None and asked.node_class.spec.suspend),
        attempts=[_attempt_item(attempt) for attempt in story.attempts],
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
        next=next_command(story, asked),
    )


def _heading(story: Story, asked: Enquiry) -> Text:
    style = "red" if story.failed else "green" if story.ready or story.over else "yellow"
    spec = asked.request.spec
    wanted = f"{spec.gpu_count}x {spec.gpu_type or (spec.offer.instance_type if spec.offer else 'a GPU')}"
    wanted += " spot" if spec.spot else ""
    wanted += f" up to ${spec.max_hourly_price}/h" if spec.max_hourly_price else ""
    wanted += f" from {spec.provider}" if spec.provider else ""
    places = [each for each in (spec.region, *spec.regions) if each]
    wanted += f" in {' or '.join(dict.fromkeys(places))}" if places else ""
    reason = f" ({story.telling.reason})" if story.telling is not None else ""
    return Text.assemble(
        (f"request {story.key}", "bold"),
        ": ",
        (f"{story.phase}{reason}", style),
        (f"   {wanted}", "dim"),
        no_wrap=True,
    )


def _line(label: str, words: str, width: int) -> list[Text]:
    first = f"{label:<{LABEL}}"
    lines = wrapped(words, width, first=first, rest=" " * LABEL)
    lines[0].stylize("dim", 0, len(first))
    return lines


def _what(story: Story, asked: Enquiry) -> str:
    telling = story.telling
    if telling is None:
        if asked.request.status.phase is None:
            return "the operator to look at it for the first time; does it run? kubectl get lease -n tgp-system"
        return story.message or "nothing that it tells"
    return story.message or telling.message or telling.reason


def _since(story: Story) -> datetime | None:
    if story.telling is not None and story.telling.last_transition_time is not None:
        return story.telling.last_transition_time
    return story.steps[0].at


def _until(story: Story, asked: Enquiry) -> str:
    if story.over:
        return "it stays as a record of what it cost, until it is deleted"
    if said := ends_words(story, asked.now):
        return said
    if story.hourly_microusd is None and story.phase == "Pending":
        return "as long as it takes; waiting costs nothing"
    spec = asked.request.spec
    return f"given back after {spec.max_lifetime or spec.ttl or '24h'}, or {spec.idle_timeout} without a pod"


def _market_now(story: Story, asked: Enquiry) -> str:
    """What the market says at this moment, where that is not what was last written; empty: the same."""
    plan = asked.plan
    if plan is None:
        return ""
    if isinstance(plan.choice, Buy):
        offer = plan.choice.offer
        fits = f"{offer.gpu_count}x {offer.gpu} at ${dollars(plan.choice.hourly_microusd)}/h from {offer.provider} fits"
        return f"{fits}, but {plan.unwilling}" if plan.unwilling else fits
    return "" if plan.choice.message == story.message else plan.choice.message


def _cost(story: Story) -> str:
    attempt = open_attempt(story.attempts)
    if attempt is not None and attempt.outcome is None:
        price = story.hourly_microusd
        reserved = f"${dollars(price)} an hour is reserved" if price is not None else "a machine is reserved"
        return f"{reserved}; nothing is billed yet, as far as is known; {total(story.spent_microusd)} so far"
    so_far = f"{total(story.spent_microusd)} {'in all' if story.over else 'so far'}"
    if story.hourly_microusd is None:
        return f"nothing an hour now; {so_far}" if not story.over else so_far
    return f"${dollars(story.hourly_microusd)} an hour now; about {so_far}"


def _limits(asked: Enquiry) -> bool:
    return asked.node_class is not None and asked.node_class.spec.limits is not None


def _class_words(asked: Enquiry) -> str:
    if asked.node_class is None:
        return f"{asked.class_name}, which is not there or may not be read"
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
        parts.append(f"${dollars(hourly)} of ${dollars(most)} an hour")
    return ", ".join(parts)


def _attempts(attempts: Sequence[Attempt], width: int) -> list[Text]:
    shown = attempts[-ATTEMPTS_SHOWN:]
    columns = [
        Column("ATTEMPT", tuple((str(each.number), "") for each in shown), right=True),
        Column("AT", tuple((f"{each.reserved_at:%H:%M:%SZ}" if each.reserved_at else "", "dim") for each in shown)),
        Column("OFFER", tuple((offer_words(each.offer), "") for each in shown), longest=LONGEST_OFFER),
        Column("OUTCOME", tuple(_outcome(each) for each in shown)),
        Column("COST", tuple((f"${each.spent}" if each.spent else "", "") for each in shown), right=True),
        Column("MESSAGE", tuple((each.message or "", "dim") for each in shown)),
    ]
    return table(columns, width)


def _outcome(attempt: Attempt) -> tuple[str, str]:
    if attempt.outcome is None:
        return "not known yet", "yellow"
    return attempt.outcome, "green" if attempt.outcome in {"Launched", "Returned"} else "red"


def _attempt_item(attempt: Attempt) -> dict[str, Any]:
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
    dearest = sorted(holders, key=lambda each: (-each.hourly_microusd, each.key))[:HOLDERS_SHOWN]
    columns = [
        Column("HELD BY", tuple((str(each.key), "") for each in dearest)),
        Column("PHASE", tuple((each.phase, "") for each in dearest)),
        Column("$/H", tuple((dollars(each.hourly_microusd), "") for each in dearest), right=True),
    ]
    lines = table(columns, width)
    if rest := len(holders) - len(dearest):
        lines.append(Text(f"and {rest} more", style="dim"))
    return lines
