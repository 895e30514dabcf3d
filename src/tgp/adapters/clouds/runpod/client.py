"""The only sender to RunPod."""

from tgp.adapters.clouds.runpod import catalog, wire
from tgp.adapters.clouds.runpod.facts import FACTS
from tgp.adapters.clouds.runpod.paging import PodPages
from tgp.adapters.clouds.sender import OFFERS_BYTES, Sender
from tgp.core.model.instance import Instance
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.secret import Secret
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing, Right, confirmed
from tgp.ports.http import Http

SECURE = ("SECURE",)  # if the class sets none, or one unknown to this version
CLOUDS = {"SECURE": SECURE, "COMMUNITY": ("COMMUNITY",), "ALL": ("SECURE", "COMMUNITY")}


class RunPodCloud:
    def __init__(self, http: Http, account: Account, cloud: str | None = None, key: Secret | None = None) -> None:
        self._sender = Sender(http, FACTS.title)
        self._key = key  # `http` sends it; here it is only removed from errors
        self._account = account  # v2 has no account id: a fingerprint of the key
        self._clouds = CLOUDS.get(cloud or "", SECURE)

    @property
    def facts(self) -> CloudFacts:
        return FACTS

    async def offers(self) -> Listing:
        pages: list[catalog.CatalogPage] = []
        for cloud in self._clouds:
            first = await self._page(cloud, 1)
            pages.append(first)
            for count in range(2, min(first.most_gpus, catalog.MOST_GPUS) + 1):
                pages.append(await self._page(cloud, count))
        return catalog.listing(pages)

    async def _page(self, cloud: str, count: int) -> catalog.CatalogPage:
        reply = await self._sender.look(catalog.call(cloud, count), max_bytes=OFFERS_BYTES)
        return catalog.read(reply, cloud, count, self._key)

    async def launch(self, order: LaunchOrder) -> Instance:
        return wire.read_launch(await self._sender.change(wire.launch(await confirmed(order))), order, self._key)

    async def find(self, token: str) -> tuple[Instance, ...]:
        return tuple(pod for pod in await self._pods() if pod.token == token)

    async def status(self, instance_id: str) -> Instance | None:
        return wire.read_pod(await self._sender.look(wire.get_pod(instance_id)), instance_id, self._key)

    async def terminate(self, instance_id: str) -> None:
        reply = await self._sender.change(wire.terminate(instance_id))
        failure = wire.read_terminate(reply, instance_id, self._key)
        if failure is not None:
            raise failure

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return tuple(pod for pod in await self._pods() if pod.token.startswith(prefix))

    async def _pods(self) -> tuple[Instance, ...]:
        """Every pod of the account, by id: all pages, or an error."""
        pages = PodPages()
        while pages.take(await self._sender.look(pages.call(), max_bytes=OFFERS_BYTES), self._key):
            pass  # `take` keeps within MOST_PAGES
        return wire.read_pods(pages.rows)

    async def check(self) -> KeyReport:
        await self._pods()
        rights = (
            Right("list pods", held=True),
            Right("create pods", held=None, note="RunPod shows this only when an order is sent"),
            Right("terminate pods", held=None, note="RunPod shows this only when a pod is terminated"),
        )
        note = "RunPod's API shows no balance: the account must cover one hour of the machine before it starts"
        return KeyReport(self._account, rights, notes=(note,))

    async def identity(self) -> Account:
        return self._account
