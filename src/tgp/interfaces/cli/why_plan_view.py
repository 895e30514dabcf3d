"""The state of a pod, a Node or a pool on one screen: what it waits for, what serves it, what it costs."""

from collections.abc import Iterable, Iterator
from datetime import datetime

from rich.console import Group
from rich.text import Text

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.costs import hourly_of, read_amount
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.money import about, dollars, total
from tgp.core.model.pod import Pod
from tgp.core.model.resources import Resources
from tgp.core.pools.limits import limit_amount
from tgp.core.pools.planner.world import LimitRoom
from tgp.core.pools.status import would_have_paid
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import cut
from tgp.interfaces.cli.plan_view import counted, labelled, labelled_line, order_words, pod_names
from tgp.interfaces.terminal.snapshot import age, moment
from tgp.services.documents.reasons import (
    hourly_of_machine,
    next_for_node,
    next_for_pod,
    next_for_pool,
    phase_of,
    reason_of_pod,
    state_of_pod,
)
from tgp.services.plan_answers import NodeEnquiry, PodEnquiry, PoolEnquiry

WAITING = ("Waits", "SchedulingGated", "BudgetGate", "NotScheduledYet", "NoGPU")
EVENTS_SHOWN = 2  # the newest
LONGEST_EVENT = 240  # characters; -o json has all
MACHINES_SHOWN = 8
REASONS_SHOWN = 8


# -- a pod -------------------------------------------------------------------------------------------------------------


def render_pod(asked: PodEnquiry, width: int) -> Group:
    good = asked.reason in ("Scheduled", "Succeeded")
    state = asked.pod.phase if asked.reason == asked.pod.phase else f"{asked.pod.phase} ({reason_of_pod(asked)})"
    heading = _heading(f"pod {asked.pod.key}", state, _amounts(asked.pod.requests), good=good)
    return _screen(heading, pod_rows(asked), next_for_pod(asked), width)


def pod_rows(asked: PodEnquiry) -> Iterator[tuple[str, str]]:
    pod, now = asked.pod, asked.now
    label = "waits for" if asked.reason in WAITING else "runs" if asked.reason == "Scheduled" else "state"
    yield label, state_of_pod(asked)
    since = pod.unplaced_since if not pod.node else pod.started_at or pod.accepted_at
    if since is not None:
        yield "since", _since(since, now)
    if asked.machine is not None:
        yield "machine", f"request {asked.machine.key}, {_price_words(asked.machine)}"
    elif pod.node:
        yield "machine", f"Node {pod.node} belongs to no request that you may see: see tgp why node/{pod.node}"
    if asked.order is not None:
        yield "would buy", order_words(asked.order)
        if asked.order.compared:
            yield "", asked.order.compared
        if asked.order.spot_loss:
            chance = f"{100 * asked.order.spot_loss:.1f} % an hour"
            yield "", f"spot: a loss of the machine is counted with a chance of {chance}"
    yield from labelled("ordered", (_machine_words(record) for record in asked.bought))
    if asked.unserved is not None:
        yield from labelled("not served", _reasons(asked))
    if asked.own_price_microusd is not None:
        ends = f"until {moment(asked.own_price_until, now)}" if asked.own_price_until else "for as long as it waits"
        yield "own price", f"at most {about(asked.own_price_microusd)} per GPU and hour {ends} (tgp.io/max-price)"
    if asked.gang:
        yield "gang", f"{asked.gang}: its pods are served together or not at all"
    yield from labelled("ignored", asked.ignored)
    yield from labelled("events", (_event(asked, number) for number in range(len(asked.events))[-EVENTS_SHOWN:]))
    if asked.plan is not None:
        if asked.plan.hold:
            yield "stopped by", f"all purchases are paused ({asked.plan.hold}). Resume: tgp release"
        yield from labelled("not seen", asked.plan.unseen)


def _reasons(asked: PodEnquiry) -> Iterator[str]:
    assert asked.unserved is not None, "checked by the caller"
    for each in asked.unserved.reasons[:REASONS_SHOWN]:
        yield f"pool {each.pool}: {each.message}" if each.pool.name else each.message


def _event(asked: PodEnquiry, number: int) -> str:
    event = asked.events[number]
    when = f"{age(asked.now - event.at)} ago, " if event.at is not None else ""
    return cut(f"{when}{event.reason}: {event.message}", LONGEST_EVENT)


# -- a Node ------------------------------------------------------------------------------------------------------------


def render_node(asked: NodeEnquiry, width: int) -> Group:
    ready = {True: "Ready", False: "NotReady", None: "Unknown"}[asked.node.ready]
    rented = _price_words(asked.request) if asked.request is not None else ""
    heading = _heading(f"node {asked.node.name}", ready, rented, good=asked.node.ready is True)
    return _screen(heading, node_rows(asked), next_for_node(asked), width)


def node_rows(asked: NodeEnquiry) -> Iterator[tuple[str, str]]:
    record, now = asked.request, asked.now
    if record is None:
        yield "machine", "of no request that you may see: tgp neither pays for it nor terminates it"
        yield "pods", f"{counted(asked.others, 'pod')} besides those of DaemonSets"
        yield from labelled("not seen", asked.unseen)
        return
    whose = f"pool {asked.pool}" if asked.pool is not None else "the user who wrote the request"
    yield "machine", f"request {record.key}, bought for {whose}"
    others = f"; {counted(asked.others, 'other pod')}" if asked.others else ""
    yield "used by", (pod_names(asked.users) if asked.users else "no pod that uses a GPU") + others
    if asked.ends:
        yield "ends", asked.ends
        return
    if asked.idle_since is not None:
        yield "idle since", _since(asked.idle_since, now)
    if asked.users:
        yield "kept", f"{counted(len(asked.users), 'pod')} {'uses' if len(asked.users) == 1 else 'use'} its GPUs"
    yield from labelled("" if asked.users else "kept", asked.kept)
    if asked.deleted_at is not None:
        when = moment(asked.deleted_at, now)
        yield "until", f"deleted by its pool at {when} if it stays empty (spec.disruption.consolidateAfter)"
    elif asked.pool is None:
        spec = record.value.spec if record.value is not None else None
        if spec is not None:
            life = spec.max_lifetime or spec.ttl or "24h"
            yield "until", f"terminated after {life}, or after {spec.idle_timeout} without a pod that uses a GPU"
    yield from labelled("not seen", asked.unseen)


# -- a pool ------------------------------------------------------------------------------------------------------------


def render_pool(asked: PoolEnquiry, width: int) -> Group:
    note = asked.note
    state = "Observe" if note.observes else "Stopped" if note.stopped else "Active"
    heading = _heading(f"pool {asked.pool.key}", state, f"class {note.class_name}", good=not note.stopped)
    return _screen(heading, pool_rows(asked), next_for_pool(asked), width)


def pool_rows(asked: PoolEnquiry) -> Iterator[tuple[str, str]]:
    now = asked.now
    if asked.note.stopped:
        reason, _, message = asked.note.stopped.partition(": ")
        yield "stopped by", f"{message} ({reason})"
    if asked.plan.hold:
        yield "stopped by", f"all purchases are paused ({asked.plan.hold}). Resume: tgp release"
    if asked.note.observes:
        yield "observes", "the pool reports what it would buy, and buys nothing (spec.mode)"
    waiting = asked.plan.pods
    yield "pods", f"{counted(waiting, 'pod')} {'waits' if waiting == 1 else 'wait'} for a machine of any pool"
    yield from labelled("would buy", (order_words(order) for order in asked.orders))
    yield from labelled("not served", _grouped_reasons(asked))
    every_hour = sum(hourly_of_machine(record) or 0 for record in asked.machines)
    yield (
        "machines",
        f"{counted(len(asked.machines), 'request')}, {dollars(every_hour)} an hour" if asked.machines else "none",
    )
    for record in asked.machines[:MACHINES_SHOWN]:
        yield "", _machine_words(record)
    if rest := len(asked.machines) - MACHINES_SHOWN:
        yield from (("", f"{rest} more"),) if rest > 0 else ()
    yield from labelled("limit", (_room_words(room) for room in asked.limits))
    status = asked.pool.value.status if asked.pool.value is not None else None
    if status is not None and (cost := status.would_have_cost) is not None:
        paid, hourly = total(would_have_paid(cost, now)), dollars(read_amount(cost.hourly_cost) or 0)
        yield "would cost", f"{hourly} an hour now; {paid} since {moment(cost.since, now)}, had the pool bought"
    if status is not None and status.last_plan is not None and status.last_plan.at is not None:
        last, at = status.last_plan, status.last_plan.at
        without = f" without {last.gap_without}" if last.gap_without else ""
        gap = "" if not last.gap or not last.orders else f", within {last.gap} of the best possible price{without}"
        gap = ", the cheapest possible" if gap and last.gap == "0%" else gap
        done = f"{counted(last.orders, 'machine')} ordered, {counted(last.unserved, 'pod')} not served"
        yield "last plan", f"{moment(at, now)}: {done}{gap}"
    for condition in status.conditions if status is not None else ():
        words = f" ({condition.reason}): {condition.message}" if condition.message else f" ({condition.reason})"
        yield "condition", f"{condition.type} is {condition.status}{words}"
    yield from labelled("not seen", asked.plan.unseen)


def _grouped_reasons(asked: PoolEnquiry) -> Iterator[str]:
    groups: dict[str, list[Pod]] = {}
    for pod, reason in asked.unserved:
        groups.setdefault(reason.message, []).append(pod)
    for message, pods in list(groups.items())[:REASONS_SHOWN]:
        yield f"{pod_names(pods)}: {message}"


def _room_words(room: LimitRoom) -> str:
    return f"{room.name}: {limit_amount(room.resource, room.left)} left"


# -- parts -------------------------------------------------------------------------------------------------------------


def _heading(title: str, state: str, facts: str, *, good: bool) -> Text:
    style = "green" if good else "yellow"
    return Text.assemble((title, "bold"), ": ", (state, style), (f"   {facts}" if facts else "", "dim"), no_wrap=True)


def _screen(heading: Text, rows: Iterable[tuple[str, str]], command: str, width: int) -> Group:
    lines = [heading, Text()]
    for label, words in rows:
        lines += labelled_line(label, words, width)
    return Group(*lines, Text(), *next_lines(command))


def _since(at: datetime, now: datetime) -> str:
    return f"{moment(at, now)}, {age(now - at)} ago"


def _amounts(requests: Resources) -> str:
    others = [f"{amount} {name}" for name, amount in requests.others if amount]
    return ", ".join([*others, *([f"{requests.cpu_milli / 1000:g} CPU"] if requests.cpu_milli else [])])


def _price_words(record: KubeObject[GPURequest]) -> str:
    attempt = open_attempt(attempts_of(record))
    if attempt is None:
        return "no machine yet"
    offer = attempt.offer
    what = f"{offer.gpu_count or 1}x {offer.gpu_type or 'GPU'} from {offer.provider} " if offer is not None else ""
    return f"{what}at {dollars(hourly_of(attempt))}/h"


def _machine_words(record: KubeObject[GPURequest]) -> str:
    return f"request {record.key} ({phase_of(record)}), {_price_words(record)}"
