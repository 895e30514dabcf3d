"""The walk itself: look, choose, rent, see it serve, terminate it, prove it, print the bill."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tgp.adapters.clouds.registry import AllClouds
from tgp.api.values import usd
from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.offer import Offer
from tgp.core.requests.node_state import provider_id_of
from tgp.ports.cloud import Cloud
from tools.live.asked import Asked
from tools.live.choice import cheapest
from tools.live.cluster import LiveCluster, Ways
from tools.live.termination import terminate

GLANCE_S = 1.0
START_WITHIN = timedelta(minutes=20)  # from the request to a pod that runs
END_WITHIN = timedelta(minutes=15)  # from the deletion to the end of the object
WALK_WITHIN = timedelta(minutes=50)  # the watchman's: before an hour is over, and with it the next hour's price

Say = Callable[[str], None]
Watch = Callable[[str], AbstractContextManager[Any]]  # of everything under this prefix


class WalkFailed(Exception):
    """What did not happen. Whatever was bought was terminated, or the last lines say otherwise."""


@dataclass(slots=True)
class Stages:
    """Tells each new thing once."""

    say: Say
    last: str = ""

    def tell(self, status: dict[str, Any]) -> None:
        line = f"{status.get('phase', 'Pending')}: {status.get('message', '')}".rstrip(": ")
        if line != self.last:
            self.last = line
            self.say(line)


def opened(asked: Asked, ways: Ways) -> Cloud:
    clouds = AllClouds(ways.dial, ways.clock, ways.entropy, ways.resolver)
    return clouds.open(asked.counter.source, asked.counter.key, {})


async def look(asked: Asked, cloud: Cloud, say: Say) -> Offer:
    """Who pays, and what would be rented. Spends nothing."""
    try:
        report = await cloud.check()
        offers = (await cloud.offers()).offers
    except CloudError as error:
        raise WalkFailed(f"{asked.counter.facts.title} cannot be asked: {error}") from error
    balance = "" if report.balance_microusd is None else f", {usd(report.balance_microusd)} USD left"
    say(f"account {report.account.name or report.account.id} at {asked.counter.facts.title}{balance}")
    if not report.can_buy:
        raise WalkFailed(f"the account cannot buy: {'; '.join(report.notes) or 'it does not say why'}")
    offer = cheapest(offers, asked.cap_microusd)
    if offer is None:
        raise WalkFailed(f"none of {len(offers)} offers costs less than {usd(asked.cap_microusd)} USD an hour")
    say(
        f"the cheapest of {len(offers)} offers: {offer.gpu_count}x {offer.gpu} ({offer.instance_type}) in {offer.place}"
        f" at {usd(offer.hourly_microusd)} USD an hour"
    )
    return offer


async def walk(asked: Asked, ways: Ways, watch: Watch, say: Say) -> None:
    """Raises WalkFailed. However it ends, the provider was shown to list nothing of ours, or the watchman is at it."""
    cloud = opened(asked, ways)
    offer = await look(asked, cloud, say)
    if not asked.yes:
        say("nothing was rented: YES=1 does it")
        return
    cluster = LiveCluster(asked, ways)
    trouble: BaseException | None = None
    with watch(cluster.prefix):
        say(f"everything rented here is named {cluster.prefix}…; a watchman terminates it if this process dies")
        try:
            async with cluster.operated(ways):
                await _there_and_back(cluster, cloud, offer, say)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 - first the machine, then the error
            trouble = error
            say(f"trouble: {error!r}")
        left = await asyncio.shield(terminate(cloud, cluster.prefix, ways.clock, say))
    say(f"{asked.counter.facts.title} lists nothing of ours any more")
    _bill(cluster, say)
    if trouble is not None:
        raise WalkFailed(f"terminated; but the walk failed: {str(trouble) or 'interrupted'}") from trouble
    if left:
        raise WalkFailed(f"the operator left {', '.join(left)} behind; the walk gave it back")


def _bill(cluster: LiveCluster, say: Say) -> None:
    """As the operator wrote it down; what it did not live to write is on the provider's own bill."""
    spent = cluster.spent()
    for entry in spent:
        lasted = int((entry.ended - entry.began).total_seconds())
        say(f"the bill: {usd(entry.microusd)} USD for {entry.instance}, {lasted} s of {entry.gpus}x {entry.gpu}")
    if not spent:
        say("the bill: nothing was entered; the provider's own says more")


async def _there_and_back(cluster: LiveCluster, cloud: Cloud, offer: Offer, say: Say) -> None:
    stages = Stages(say)
    try:
        async with asyncio.timeout(START_WITHIN.total_seconds()):
            node = await _there(cluster, cloud, offer, stages)
        say(f"Node {node} runs a pod on a GPU; now back")
        cluster.delete()
        async with asyncio.timeout(END_WITHIN.total_seconds()):
            while cluster.request is not None:
                await _glance(cluster, stages)
    except TimeoutError as error:
        raise WalkFailed(f"it took too long; the last word was: {stages.last}") from error
    say("the operator gave it back, entered its cost, and let the object go")


async def _there(cluster: LiveCluster, cloud: Cloud, offer: Offer, stages: Stages) -> str:
    """The Node, once it serves. One machine is all that the cap is for: there is no second one."""
    cluster.order(offer)
    node = ""
    while not (cluster.status.get("phase") == "Ready" and cluster.pod_runs):
        match cluster.status.get("phase"):
            case "Booting" if not node:  # the provider says that it runs
                node = str(cluster.status["nodeName"])
                cluster.join(node, provider_id_of(cloud.facts.provider, cluster.status["attempts"][-1]["token"]), offer)
            case "Terminating" | "Failed" | "Finished":
                raise WalkFailed(str(cluster.status.get("message")))
        await _glance(cluster, stages)
    return node


async def _glance(cluster: LiveCluster, stages: Stages) -> None:
    cluster.must_be_operated()
    stages.tell(cluster.status)
    await asyncio.sleep(GLANCE_S)
