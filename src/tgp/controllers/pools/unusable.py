"""Finds machines that do not serve the pods they were bought for; a ConfigMap tells the next process of them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from tgp.api.request import GPURequest
from tgp.controllers.pools.remembered_table import RememberedTable
from tgp.controllers.requests.indexes import PODS_BY_NODE, own_node
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.capacity import on_its_way
from tgp.core.pools.orders import bought_for, family
from tgp.core.pools.planner.classes import gang_name
from tgp.core.pools.runaway import (
    MOST_CHARACTERS,
    MOST_LINES,
    SCHEDULED_WITHIN,
    UNUSABLE,
    Runaways,
    Serving,
    UnusableMachine,
    failed_machines,
    line_of,
    read_line,
    unused_machine,
    unused_since,
)
from tgp.core.requests.node_metadata import pool_key, pool_uid
from tgp.ports.cluster import Cluster, ClusterError
from tgp.ports.journal import Journal

UnusableTable: TypeAlias = RememberedTable[UnusableMachine]


def unusable_table(cluster: Cluster, namespace: str, journal: Journal) -> UnusableTable:
    return RememberedTable(cluster, ObjectKey(namespace, UNUSABLE), journal, line_of=line_of, read_line=read_line)


@dataclass(frozen=True, slots=True)
class JustReady:
    """Pods whose machine has become ready a moment ago: the scheduler may not have bound them yet."""

    pods: frozenset[str] = frozenset()  # uids
    until: datetime | None = None  # when the first of them has waited long enough


@dataclass(frozen=True, slots=True)
class _Unused:
    """A machine that is ready and serves no pod, though pods that it was bought for wait."""

    record: KubeObject[GPURequest]
    node: Node
    there: tuple[Pod, ...]
    since: datetime
    waiting: tuple[Pod, ...]


class UnusableMachines:
    def __init__(self, views: Views, runaways: Runaways) -> None:
        self._views = views
        self._runaways = runaways

    def look(self, waiting: Mapping[str, Pod], now: datetime) -> JustReady:
        """Learn from the requests that are there."""
        for record in self._views.requests.values():
            for failed in failed_machines(record, now):
                self._runaways.learn(failed, now)
        unused, moments, fresh = list(self._unused(waiting)), [], set[str]()
        torn = _torn_gangs(waiting, unused)
        for each in unused:
            pool = pool_key(each.record)
            owner = self._views.pools.get(pool) if pool is not None else None
            generation = owner.generation if owner is not None else 0
            found = unused_machine(each.record, each.node, each.there, each.waiting[0], now, generation=generation)
            if found is not None and not any(gang_name(pod) in torn for pod in each.waiting):
                self._runaways.learn(found, now)
                continue
            fresh |= {uid_text(pod.uid) for pod in each.waiting}
            if found is None:
                moments.append(each.since + SCHEDULED_WITHIN)
        return JustReady(frozenset(fresh), min(moments, default=None))

    def forget_served(self, waiting: Mapping[str, Pod], now: datetime) -> None:
        if not len(self._runaways):
            return
        serving = {
            node.name: Serving(record.value.status.ready_at, pool_uid(record))
            for record in self._views.requests.values()
            if record.value is not None
            and record.value.status.ready_at
            and (node := own_node(self._views.nodes, record)) is not None
        }
        self._runaways.forget((pod for pod in self._views.pods.values() if pod.node), serving, waiting, now)

    def restore(self, machines: Iterable[UnusableMachine], now: datetime) -> None:
        for machine in machines:
            self._runaways.learn(machine, now)

    async def keep(self, table: UnusableTable) -> None:
        """What a failing API server does not take is written with the next plan."""
        written = dict(await table.entries())
        newest = _that_fit(self._runaways.machines())
        try:
            await table.drop(sorted(set(written) - {each.token for each in newest}))
            for machine in newest:
                before = written.get(machine.token)
                gone = self._views.requests.get(machine.key) is None
                if (
                    before is None
                    or (before.pods, before.pool) != (machine.pods, machine.pool)
                    or (gone and before.microusd != machine.microusd)
                ):
                    await table.keep(machine.token, machine)
        except ClusterError:
            return

    def _unused(self, waiting: Mapping[str, Pod]) -> Iterator[_Unused]:
        families: dict[str, list[Pod]] | None = None
        for record in sorted(self._views.requests.values(), key=lambda each: each.key):
            node = own_node(self._views.nodes, record)
            if node is None or on_its_way(record):
                continue
            there = tuple(self._views.pods.by_index(PODS_BY_NODE, node.name))
            since = unused_since(record, node, there)
            if since is None:
                continue
            bought = bought_for(record)
            pods = [waiting[uid] for uid in bought if uid in waiting]
            if len(pods) < len(bought):  # pods that were created again
                families = _by_family(waiting) if families is None else families
                gone = {name for uid, name in bought.items() if uid not in waiting}
                pods += [pod for name in sorted(gone) for pod in families.get(name, ()) if pod not in pods]
            if pods:
                yield _Unused(record, node, there, since, tuple(pods))


def _that_fit(machines: Iterable[UnusableMachine]) -> list[UnusableMachine]:
    """The newest, the oldest of them first, as many as the ConfigMap holds."""
    newest = sorted(machines, key=lambda each: (each.ended_at, each.token))[-MOST_LINES:]
    left, found = MOST_CHARACTERS, list[UnusableMachine]()
    for machine in reversed(newest):
        left -= len(machine.token) + len(line_of(machine))
        if left < 0:
            break
        found.insert(0, machine)
    return found


def _torn_gangs(waiting: Mapping[str, Pod], unused: Iterable[_Unused]) -> set[str]:
    """Gangs of which some pods have a machine and others do not: their scheduler may wait for the rest."""
    served = {uid_text(pod.uid) for each in unused for pod in each.waiting}
    gangs = {gang for each in unused for pod in each.waiting if (gang := gang_name(pod))}
    return (
        {gang for uid, pod in waiting.items() if uid not in served and (gang := gang_name(pod)) in gangs}
        if gangs
        else set()
    )


def _by_family(waiting: Mapping[str, Pod]) -> dict[str, list[Pod]]:
    found: dict[str, list[Pod]] = {}
    for pod in waiting.values():
        found.setdefault(family(pod), []).append(pod)
    return found
