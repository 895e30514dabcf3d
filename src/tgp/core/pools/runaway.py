"""Machines that were paid and did not serve their pods: after each, nothing more is bought for them for a while.

And pods that fit by our count, and that the scheduler refuses all the same: nothing more is bought for them.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from tgp.api.request import GPURequest
from tgp.api.values import rfc3339
from tgp.core.model.attempts import TAKES_OVER, attempts_of, gpu_resource, open_attempt
from tgp.core.model.costs import spent_by
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.money import total
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.resources import amount_text
from tgp.core.model.taints import untolerated
from tgp.core.pools.capacity import less, taken_by
from tgp.core.pools.demand import requests_gpus
from tgp.core.pools.orders import REPLACES, anchor_of, bought_for, family, slot_number
from tgp.core.pools.planner.classes import gang_name
from tgp.core.requests.chosen_offer import offer_of
from tgp.core.requests.drain import DISRUPTED
from tgp.core.requests.node_metadata import pool_uid
from tgp.core.requests.node_state import idle

NOTICED_WITHIN = timedelta(seconds=30)  # of Ready: that no pod uses the machine
SCHEDULED_WITHIN = timedelta(minutes=2)  # of Ready: the scheduler may not have bound the pods it was bought for yet
PAUSES = (timedelta(minutes=5), timedelta(minutes=30), timedelta(days=1))  # after the first, second, every further one
MOST_UNUSED = len(PAUSES)  # machines of a pool that became ready in a day and served no pod: then it buys none
KEPT_FOR = PAUSES[-1] * len(PAUSES)
UNUSED = "MachinesUnused"  # the reason of a pool that buys nothing
UNUSABLE = "tgp-unusable"  # the ConfigMap
MOST_REMEMBERED = 10_000  # machines, the newest
MOST_LINES = 256  # of the ConfigMap, those of the newest machines
MOST_CHARACTERS = 800_000  # of all of them: a ConfigMap holds 1 MiB
MESSAGE_KEPT = 300  # characters of why a machine was unusable
SEE_EVENTS = "although its free resources suffice; see the pod's FailedScheduling Events"
DISAGREED_AFTER = timedelta(minutes=5)  # the scheduler refuses a pod on a Node where it fits by our count
DISAGREED_FOR = timedelta(hours=1)
MOST_DISAGREEMENTS = 1_000  # pairs of a family of pods and a Node; the newest


class UnusableMachine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One machine that was paid and did not serve the pods it was bought for."""

    token: str
    namespace: str
    request: str
    offer: str  # its key
    ended_at: datetime  # of one that became ready: when it had been unused for long enough
    microusd: int = 0  # that it has cost, as far as known
    what: str = ""  # was wrong, and what to do about it
    pods: dict[str, str] = {}  # uids of those it was bought for and that were not served since, with their families
    launched_at: datetime | None = None  # None: written by an older version
    # Of one that became ready and served no pod, while its pool has served none since: which pool, at which spec.
    pool: str = ""  # its uid; empty: another machine
    generation: int = 0

    @property
    def launched(self) -> datetime:
        return self.launched_at or self.ended_at

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.request)


def line_of(machine: UnusableMachine) -> str:
    return msgspec.json.encode(machine, order="sorted").decode()


def read_line(line: object) -> UnusableMachine | None:
    """None: it cannot be read."""
    try:
        found = msgspec.json.decode(line, type=UnusableMachine) if isinstance(line, str) else None
    except msgspec.DecodeError:
        return None
    if found is None or found.ended_at.tzinfo is None or found.launched.tzinfo is None:
        return None
    return found


@dataclass(frozen=True, slots=True)
class Serving:
    """A pool's machine that pods run on, or ran: not one that keeps a slot."""

    ready_at: datetime
    pool: str = ""  # uid


@dataclass(frozen=True, slots=True)
class Refusals:
    """What a plan must not do: buy for these pods at all, or these offers for those."""

    refused: Mapping[str, str] = field(default_factory=dict)  # pod uid → why
    not_for: Mapping[str, frozenset[str]] = field(default_factory=dict)  # pod uid → offer keys
    until: Mapping[str, datetime] = field(default_factory=dict)  # pod uid → when it may be bought for again


def failed_machines(record: KubeObject[GPURequest], now: datetime) -> Iterator[UnusableMachine]:
    """Of one request, the machines that were never ready, as its attempts tell.

    Not machines you own: one that does not wake cools down, and the next best serves its pods.
    """
    if record.value is None or record.value.status.ready_at is not None or not pool_uid(record):
        return
    for each in attempts_of(record):
        if each.outcome != "Failed" or each.launched_at is None or each.ended_at is None or each.offer is None:
            continue
        if each.offer.boot_mode == BootMode.POWER.value:
            continue
        why = f": {each.message}" if each.message else ""
        yield UnusableMachine(
            token=each.token,
            namespace=record.key.namespace,
            request=record.key.name,
            offer=offer_of(each.offer).key,
            ended_at=each.ended_at,
            microusd=spent_by(record.value.status, now),
            what=f"never became usable{why}"[:MESSAGE_KEPT] + f"; see kubectl describe gr -n {record.key.namespace}",
            pods=dict(bought_for(record)),
            launched_at=each.launched_at,
        )


def unused_since(record: KubeObject[GPURequest], node: Node | None, there: Iterable[Pod]) -> datetime | None:
    """Since when a pool's machine is ready and no pod uses its GPUs; None: that is not so, or it keeps a slot."""
    attempt = open_attempt(attempts_of(record))
    if record.value is None or attempt is None or attempt.launched_at is None or not pool_uid(record):
        return None
    ready_at, idle_since = record.value.status.ready_at, record.value.status.idle_since
    if ready_at is None or idle_since is None or node is None or node.ready is not True:
        return None
    if slot_number(anchor_of(record)) is not None:
        return None
    return max(ready_at, idle_since) if idle(there, gpu_resource(attempt)) else None


def served_none(record: KubeObject[GPURequest]) -> bool:
    """Whether a machine that a pool bought for pods became ready and no pod has used its GPUs since.

    One that takes the place of another was not bought for pods that wait.
    """
    status = record.value.status if record.value is not None else None
    if status is None or status.ready_at is None or status.idle_since is None or not pool_uid(record):
        return False
    bought = slot_number(anchor_of(record)) is None and REPLACES not in record.annotations
    return bought and TAKES_OVER not in record.annotations and status.idle_since <= status.ready_at + NOTICED_WITHIN


def left_unused(record: KubeObject[GPURequest], generation: int, now: datetime) -> UnusableMachine | None:
    """Of a machine that is being terminated and served no pod at all; those that it was bought for may be gone."""
    attempt = attempts_of(record)[-1] if attempts_of(record) else None
    if attempt is None or attempt.launched_at is None or attempt.offer is None or not served_none(record):
        return None
    assert record.value is not None, "its status was read"
    return UnusableMachine(
        token=attempt.token,
        namespace=record.key.namespace,
        request=record.key.name,
        offer=offer_of(attempt.offer).key,
        ended_at=now,
        microusd=spent_by(record.value.status, now),
        what="became ready, and no pod was scheduled to it",
        launched_at=attempt.launched_at,
        pool=pool_uid(record),
        generation=generation,
    )


def unused_machine(
    record: KubeObject[GPURequest],
    node: Node,
    there: Iterable[Pod],
    waiting: Pod,
    now: datetime,
    *,
    generation: int = 0,
) -> UnusableMachine | None:
    """`waiting`: a pod that it was bought for, and that waits all the same. None: the scheduler gets more time."""
    pods = tuple(there)
    since, attempt = unused_since(record, node, pods), open_attempt(attempts_of(record))
    if since is None or now < since + SCHEDULED_WITHIN or attempt is None or attempt.offer is None:
        return None
    assert record.value is not None, "it is unused"
    return UnusableMachine(
        token=attempt.token,
        namespace=record.key.namespace,
        request=record.key.name,
        offer=offer_of(attempt.offer).key,
        ended_at=since + SCHEDULED_WITHIN,
        microusd=spent_by(record.value.status, now),
        what=f"became ready, and the pod was not scheduled to it: {obstacle(waiting, node, pods)}",
        pods=dict(bought_for(record)),
        launched_at=attempt.launched_at,
        pool=pool_uid(record) if served_none(record) else "",
        generation=generation,
    )


def obstacle(pod: Pod, node: Node, there: Iterable[Pod]) -> str:
    """What keeps a pod off a Node, as far as we can tell, and what to do."""
    taint = untolerated((each for each in node.taints if each != DISRUPTED), pod.tolerations)
    if taint is not None:
        return (
            f"Node {node.name} has taint {taint.key}:{taint.effect}, which the pod does not tolerate. Add "
            "a toleration to the pod, or stop what adds the taint to the Nodes of the pool"
        )
    free = node.allocatable
    for other in there:
        free = free if other.finished else less(free, taken_by(other))
    for name, amount in pod.requests.items():
        if amount > free.of(name):
            left = amount_text(name, free.of(name))
            return (
                f"the pod requests {amount_text(name, amount)}, and Node {node.name} has {left} free. Request less, or "
                "require larger machines in the pool"
            )
    return f"the scheduler refuses Node {node.name} for a reason of its own: see the pod's Events FailedScheduling"


class Runaways:
    """Unusable machines, by token. A new process gets them from a table and from failed requests."""

    def __init__(self) -> None:
        self._machines: dict[str, UnusableMachine] = {}

    def __len__(self) -> int:
        return len(self._machines)

    def machines(self) -> tuple[UnusableMachine, ...]:
        return tuple(self._machines.values())

    def learn(self, found: UnusableMachine, now: datetime) -> bool:
        """Pods that were forgotten of a machine stay so. Whether the machine is new."""
        known = self._machines.get(found.token)
        if known is not None:
            cost = max(known.microusd, found.microusd)
            self._machines[found.token] = msgspec.structs.replace(known, microusd=cost)
        elif now < found.ended_at + KEPT_FOR:
            self._machines[found.token] = found
        while len(self._machines) > MOST_REMEMBERED:
            del self._machines[min(self._machines, key=lambda token: self._machines[token].ended_at)]
        return known is None

    def forget(
        self, bound: Iterable[Pod], serving: Mapping[str, Serving], waiting: Collection[str], now: datetime
    ) -> None:
        """Pods that are bound are served. `serving`: by Node, machines that became ready.

        A machine that serves a pod of a family, and became ready after another was launched, shows that machines can
        serve it: what pods that are gone left is over, and what pods that wait have is their own alone. So for a pool.
        """
        known = {uid for each in self._machines.values() for uid in each.pods}
        namespaces = {name.partition("/")[0] for each in self._machines.values() for name in each.pods.values()}
        pools = {each.pool for each in self._machines.values() if each.pool}
        served, helped = set(), dict[str, datetime]()
        for pod in bound:
            uid, there = uid_text(pod.uid), serving.get(pod.node)
            if uid in known:
                served.add(uid)
            if there is None:
                continue
            names = [family(pod)] if pod.key.namespace in namespaces else []
            names += [there.pool] if there.pool in pools and requests_gpus(pod) else []
            helped |= {name: max(there.ready_at, helped.get(name, there.ready_at)) for name in names}
        machines = (each for each in self._machines.values() if now < each.ended_at + KEPT_FOR)
        self._machines = {each.token: _without_served(each, served, helped, waiting) for each in machines}

    def refusals(
        self, waiting: Mapping[str, Pod | None], now: datetime, coming: Collection[str] = frozenset()
    ) -> Refusals:
        """`waiting`: by uid; a slot has no pod. `coming`: uids of those with a machine on its way.

        Machines that did not serve a pod count for its family, and then one is tried at a time. A pod whose machine is
        on its way has only its own: of many that are bought at once a few may fail.
        """
        own: dict[str, list[UnusableMachine]] = {}
        shared: dict[str, list[UnusableMachine]] = {}
        for machine in self._machines.values():
            for uid, name in machine.pods.items():
                own.setdefault(uid, []).append(machine)
                shared.setdefault(name, []).append(machine)
        refused, not_for, ends = {}, {}, {}
        namespaces = {name.partition("/")[0] for name in shared}
        pods = {uid: pod for uid, pod in waiting.items() if pod is not None and pod.key.namespace in namespaces}
        families = {uid: name for uid, pod in pods.items() if (name := family(pod)) in shared}
        tried = {name: uid for uid, name in families.items() if uid in coming}
        for uid in _in_turn({uid: pod for uid, pod in waiting.items() if uid in own or uid in families}):
            pod, name = waiting[uid], families.get(uid, "")
            alike = shared.get(name, ()) if uid not in coming else ()
            known = {each.token: each for each in (*own.get(uid, ()), *alike)}
            if not known:
                continue
            until = paused_until(known.values())
            if now < last_end(known.values()) + PAUSES[-1]:
                not_for[uid] = frozenset(each.offer for each in known.values())
            if now < until:
                ends[uid] = until
                refused[uid] = refusal(known.values(), until, "replica" if pod is None else "pod")
            elif alike and pod is not None:
                first = waiting.get(tried.setdefault(name, uid))
                if (
                    first is not None
                    and first is not pod
                    and not (gang_name(pod) and gang_name(pod) == gang_name(first))
                ):
                    refused[uid] = one_at_a_time(known.values(), first)
        return Refusals(refused, not_for, ends)

    def unused_of(self, pool: str, generation: int, now: datetime) -> "UnusedMachines | None":
        """Why the pool buys nothing: too many of its machines served no pod, and none has served one since.

        `pool`: its uid. Another spec may do better. Machines for pods of one family that wait count once: nothing more
        is bought for these, and others may be served.
        """
        alike = (each for each in self._machines.values() if each.pool == pool and each.generation == generation)
        found = sorted((each for each in alike if now < each.ended_at + PAUSES[-1]), key=lambda each: each.ended_at)
        last = {min(each.pods.values(), default=each.token): each for each in found}
        ends = sorted(each.ended_at for each in last.values())
        return UnusedMachines(tuple(found), ends[-MOST_UNUSED] + PAUSES[-1]) if len(ends) >= MOST_UNUSED else None


@dataclass(frozen=True, slots=True)
class UnusedMachines:
    machines: tuple[UnusableMachine, ...]  # the last one last
    until: datetime  # the pool buys nothing before

    @property
    def message(self) -> str:
        last, cost = self.machines[-1], total(sum(each.microusd for each in self.machines))
        return (
            f"{len(self.machines)} machines of this pool became ready within a day and served no pod; cost so far: "
            f"{cost}. The last one, GPURequest {last.key}, {last.what}. Before {rfc3339(self.until)} the pool buys "
            "nothing, unless one of its machines serves a pod or its spec changes"
        )


def _without_served(
    machine: UnusableMachine, served: Collection[str], helped: Mapping[str, datetime], waiting: Collection[str]
) -> UnusableMachine:
    def over(name: str) -> bool:
        return name in helped and helped[name] >= machine.launched

    pods = {
        uid: uid if over(name) else name
        for uid, name in machine.pods.items()
        if uid in waiting or (uid not in served and not over(name))
    }
    pool = "" if over(machine.pool) else machine.pool
    if (pods, pool) == (machine.pods, machine.pool):
        return machine
    return msgspec.structs.replace(machine, pods=pods, pool=pool)


def _in_turn(waiting: Mapping[str, Pod | None]) -> list[str]:
    """The oldest first, a gang as its oldest pod."""
    ages = {uid: _age(pod) if pod is not None else (0.0, uid) for uid, pod in waiting.items()}
    gangs: dict[str, tuple[float, str]] = {}
    for uid, pod in waiting.items():
        if pod is not None and (gang := gang_name(pod)):
            gangs[gang] = min(gangs.get(gang, ages[uid]), ages[uid])
    in_gang = {uid: gang_name(pod) if pod is not None else "" for uid, pod in waiting.items()}
    return sorted(waiting, key=lambda uid: (gangs.get(in_gang[uid], ages[uid]), uid))


def _age(pod: Pod) -> tuple[float, str]:
    return pod.created_at.timestamp() if pod.created_at is not None else 0.0, uid_text(pod.uid)


def last_end(machines: Collection[UnusableMachine]) -> datetime:
    return max(each.ended_at for each in machines)


def paused_until(machines: Collection[UnusableMachine]) -> datetime:
    return last_end(machines) + PAUSES[min(_rounds(machines), len(PAUSES)) - 1]


def _rounds(machines: Iterable[UnusableMachine]) -> int:
    """Machines that were bought before the first of them had failed count once."""
    rounds, first_end = 0, None
    for each in sorted(machines, key=lambda each: (each.launched, each.ended_at)):
        if first_end is None or each.launched >= first_end:
            rounds, first_end = rounds + 1, each.ended_at
        first_end = min(first_end, each.ended_at)
    return rounds


def one_at_a_time(machines: Collection[UnusableMachine], first: Pod) -> str:
    """Why nothing is bought for a pod whose like is tried first."""
    last = max(machines, key=lambda each: (each.ended_at, each.token))
    return (
        f"MachineUnusable: machines did not serve pods of this kind. The last one, GPURequest {last.key}, {last.what}. "
        f"One machine at a time is tried, now for pod {first.key.name}"
    )


def refusal(machines: Collection[UnusableMachine], until: datetime, whom: str = "pod") -> str:
    last, count = max(machines, key=lambda each: (each.ended_at, each.token)), len(machines)
    many = _rounds(machines) >= len(PAUSES)
    cost = total(sum(each.microusd for each in machines))
    bought, ran = ("A machine", "never ran it") if count == 1 else (f"{count} machines", "did not run it")
    reason = "MachinesUnusable" if many else "MachineUnusable"  # another reason is told at once
    unless = ", unless its template changes" if whom == "pod" else ""
    return (
        f"{reason}: {bought} bought for this {whom} {ran} (cost {cost}). The last one, GPURequest {last.key}, "
        f"{last.what}. No machine is bought for the {whom} before {rfc3339(until)}{unless}"
    )


@dataclass(frozen=True, slots=True)
class ReadyNode:
    """A Node with room, as far as a disagreement is about it."""

    bought: bool  # by a pool
    rules: tuple[object, ...]  # what the scheduler compares pods with

    @classmethod
    def of(cls, node: Node, *, bought: bool) -> "ReadyNode":
        return cls(bought, (node.labels, node.taints, node.allocatable))


@dataclass(frozen=True, slots=True)
class _Verdict:
    """The scheduler refuses pods of a family on a Node where they fit by our count."""

    until: datetime  # nothing is bought for them before, if a pool bought the Node's machine
    node: ReadyNode  # as it was


class Disagreements:
    """Pods that have room on a Ready Node by our count while the scheduler refuses them.

    It is seen of one pod, and then holds for its family: what a controller creates next need not be refused again.
    """

    def __init__(self) -> None:
        # (pod uid, Node) → since when it has been so, and the Node then
        self._since: dict[tuple[str, str], tuple[datetime, ReadyNode]] = {}
        self._verdicts: dict[tuple[str, str], _Verdict] = {}  # (family, Node), the oldest first
        self._refused: frozenset[str] = frozenset()  # uids of pods that wait, and that a verdict is about

    def learn(
        self, placed: Mapping[str, str], waiting: Mapping[str, Pod], nodes: Mapping[str, ReadyNode], now: datetime
    ) -> None:
        """`placed`: of the last plan, pod uid → Node; `nodes`: those that are Ready."""
        pairs = {(uid, node) for uid, node in placed.items() if node in nodes and uid in waiting}
        since = {}
        for pair in sorted(pairs):
            began, before = self._since.get(pair, (now, nodes[pair[1]]))
            since[pair] = (began if before.rules == nodes[pair[1]].rules else now, nodes[pair[1]])
        self._since = {pair: held for pair, held in since.items() if now < held[0] + DISAGREED_AFTER}
        for (uid, node), (_, seen) in since.items():
            if (uid, node) not in self._since:
                self._verdicts[family(waiting[uid]), node] = _Verdict(now + DISAGREED_FOR, seen)
        names = {name for _, name in self._families(waiting.values())}
        self._verdicts = {
            pair: held
            for pair, held in self._verdicts.items()
            if nodes.get(pair[1], held.node).rules == held.node.rules and (now < held.until or pair[0] in names)
        }
        while len(self._verdicts) > MOST_DISAGREEMENTS:
            del self._verdicts[next(iter(self._verdicts))]
        self._refused = frozenset().union(*self.by_node(waiting.values()).values())

    def by_node(self, waiting: Iterable[Pod]) -> Mapping[str, frozenset[str]]:
        """By Node, the uids of those of the pods for which its room does not count any more."""
        nodes: dict[str, list[str]] = {}
        for name, node in self._verdicts:
            nodes.setdefault(name, []).append(node)
        found: dict[str, set[str]] = {}
        for uid, name in self._families(waiting):
            for node in nodes.get(name, ()):
                found.setdefault(node, set()).add(uid)
        return {node: frozenset(uids) for node, uids in found.items()}

    @property
    def pods(self) -> int:
        """How many pods have room on some Node by our count, and the scheduler refuses them there for long."""
        return len(self._refused)

    def refusals(self, waiting: Iterable[Pod], now: datetime) -> dict[str, str]:
        """By uid, why nothing is bought for a pod."""
        bought = {
            name: f"SchedulerDisagrees: the scheduler rejects Node {node} {SEE_EVENTS}"
            for (name, node), held in reversed(self._verdicts.items())
            if held.node.bought and now < held.until
        }
        return {uid: bought[name] for uid, name in self._families(waiting) if name in bought} if bought else {}

    def next_change(self, now: datetime) -> datetime | None:
        moments = [since + DISAGREED_AFTER for since, _ in self._since.values()]
        moments += [held.until for held in self._verdicts.values() if held.node.bought]
        return min((each for each in moments if each > now), default=None)

    def _families(self, pods: Iterable[Pod]) -> Iterator[tuple[str, str]]:
        """Of pods that a verdict may be about: uid and family. Most are in another namespace, which is quick to see."""
        namespaces = {name.partition("/")[0] for name, _ in self._verdicts}
        for pod in pods if namespaces else ():
            if pod.key.namespace in namespaces:
                yield uid_text(pod.uid), family(pod)
