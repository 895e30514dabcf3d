"""Gangs that cannot be served whole: machines that were bought for a part of one are terminated after a while.

Only machines that no pod uses: work that runs is never ended for it.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tgp.api.request import GPURequest
from tgp.api.values import go_duration
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.costs import spent_by
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import SUCCEEDED, Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.demand import requests_gpus
from tgp.core.pools.orders import bought_for
from tgp.core.pools.runaway import UnusableMachine


@dataclass(frozen=True, slots=True)
class GangMachine:
    """A living request of a pool that was bought for pods of a gang, which still wait."""

    record: KubeObject[GPURequest]
    gangs: frozenset[str]  # of all pods that it was bought for and that wait; empty: of one that is in none
    may_take: timedelta  # until it is a Node


@dataclass(frozen=True, slots=True)
class GivenUp:
    requests: Mapping[ObjectKey, str] = field(default_factory=dict)  # to delete, with the reason
    machines: tuple[UnusableMachine, ...] = ()  # of these, what was paid
    until: datetime | None = None  # when the next gang is given up, if nothing changes


def need_no_machine(members: Iterable[Pod], waiting: Collection[str]) -> frozenset[str]:
    """Of the pods of a gang, uids of those that are placed, ask for no GPU, or have done their work.

    `waiting`: uids of controllers whose pods of the gang wait. A pod that succeeded counts where its own controller has
    others that wait: the gang of an earlier Job with the same name is another one.
    """
    return frozenset(uid_text(pod.uid) for pod in members if _needs_none(pod, waiting))


def _needs_none(pod: Pod, waiting: Collection[str]) -> bool:
    if pod.phase == SUCCEEDED:
        return pod.controller is not None and pod.controller.uid in waiting
    return not pod.finished and not pod.deleting and (bool(pod.node) or not requests_gpus(pod))


def given_up(machines: Iterable[GangMachine], unserved: Collection[str], now: datetime) -> GivenUp:
    """`unserved`: gangs that the plan leaves without a machine for one of their pods, and that no pause holds back.

    The time that a machine may take counts from the launch of the gang's first one.
    """
    known = [each for each in machines if each.gangs & set(unserved)]
    requests, paid, moments = dict[ObjectKey, str](), [], []
    for gang in sorted(unserved):
        own = [each for each in known if gang in each.gangs]
        launches = [at for each in own if (at := launched_at(each.record)) is not None]
        if not launches:
            continue
        may_take = max(each.may_take for each in own)
        if now < min(launches) + may_take:
            moments.append(min(launches) + may_take)
            continue
        why = f"gang {gang} could not be served whole within {go_duration(may_take)}"
        requests |= {each.record.key: why for each in own if each.gangs <= set(unserved)}
    paid = [found for each in known if (found := _paid(each.record, requests.get(each.record.key, ""), now))]
    return GivenUp(requests, tuple(paid), min(moments, default=None))


def launched_at(record: KubeObject[GPURequest]) -> datetime | None:
    attempt = open_attempt(attempts_of(record))
    return attempt.launched_at if attempt is not None else None


def _paid(record: KubeObject[GPURequest], why: str, now: datetime) -> UnusableMachine | None:
    """Its pods wait as long as after any machine that did not serve them; its offer may be bought again."""
    attempt = open_attempt(attempts_of(record))
    if not why or record.value is None or attempt is None or attempt.launched_at is None:
        return None
    return UnusableMachine(
        token=attempt.token,
        namespace=record.key.namespace,
        request=record.key.name,
        offer="",
        ended_at=now,
        microusd=spent_by(record.value.status, now),
        what=f"was terminated: {why}. Ask for GPUs that are on sale, or for fewer",
        pods=dict(bought_for(record)),
    )
