"""A provider that answers as told and remembers when it was asked, on the running loop's clock."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

from tgp.adapters.clouds.middleware.account_throttle import AccountThrottles
from tgp.adapters.clouds.middleware.guarded_cloud import GuardedCloud, RetryPolicy
from tgp.adapters.clouds.middleware.metrics import CloudMetrics
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.provider_facts import CloudFacts, Rate
from tgp.ports.cloud import Account, Cloud, KeyReport, LaunchOrder, Listing
from tgp.ports.entropy import Entropy

OFFER = Offer(
    provider="acme",
    sku="a100.1",
    place="ams-1",
    gpu="A100-80GB-PCIE",
    gpu_count=1,
    gpu_memory_gib=80,
    vcpus=8,
    memory_gib=64,
    disk_gib=100,
    hourly_microusd=1_290_000,
    boot=BootMode.NATIVE,
)
ORDER = LaunchOrder(OFFER, "tgp-0123456789-a-1", max_hourly_microusd=2_000_000)
MACHINE = Instance("i-1", ORDER.token, InstanceState.RUNNING)
ANSWERS: Mapping[str, Any] = {
    "offers": Listing((OFFER,)),
    "launch": MACHINE,
    "find": (MACHINE,),
    "status": MACHINE,
    "terminate": None,
    "owned": (MACHINE,),
    "check": KeyReport(Account("a-1")),
    "identity": Account("a-1"),
}
ASKING: Mapping[str, Callable[[Cloud], Awaitable[Any]]] = {
    "offers": lambda cloud: cloud.offers(),
    "launch": lambda cloud: cloud.launch(ORDER),
    "find": lambda cloud: cloud.find(ORDER.token),
    "status": lambda cloud: cloud.status("i-1"),
    "terminate": lambda cloud: cloud.terminate("i-1"),
    "owned": lambda cloud: cloud.owned("tgp-"),
    "check": lambda cloud: cloud.check(),
    "identity": lambda cloud: cloud.identity(),
}


def some_facts(**rates: Rate) -> CloudFacts:
    """`together` stands for the limit on all verbs."""
    named = {"" if verb == "together" else verb: rate for verb, rate in rates.items()}
    return CloudFacts("acme", "Acme", (BootMode.NATIVE,), "https://acme.example", timedelta(), rates=named)


class ScriptedCloud:
    """`errors` are raised one after another, whichever verb is called; then the answers of `ANSWERS`."""

    def __init__(self, *errors: BaseException, facts: CloudFacts | None = None, takes: float = 0.0) -> None:
        self.facts = facts or some_facts()
        self.calls: list[tuple[str, tuple[object, ...], float]] = []
        self.at_once = 0  # the most calls that were under way together
        self._under_way = 0
        self._errors = list(errors)
        self._takes = takes

    @property
    def times(self) -> list[float]:
        return [moment for _, _, moment in self.calls]

    @property
    def verbs(self) -> list[str]:
        return [verb for verb, _, _ in self.calls]

    async def offers(self) -> Listing:
        return await self._answer("offers")

    async def launch(self, order: LaunchOrder) -> Instance:
        return await self._answer("launch", order)

    async def find(self, token: str) -> tuple[Instance, ...]:
        return await self._answer("find", token)

    async def status(self, instance_id: str) -> Instance | None:
        return await self._answer("status", instance_id)

    async def terminate(self, instance_id: str) -> None:
        return await self._answer("terminate", instance_id)

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return await self._answer("owned", prefix)

    async def check(self) -> KeyReport:
        return await self._answer("check")

    async def identity(self) -> Account:
        return await self._answer("identity")

    async def _answer(self, verb: str, *arguments: object) -> Any:
        self.calls.append((verb, arguments, asyncio.get_running_loop().time()))
        self._under_way += 1
        self.at_once = max(self.at_once, self._under_way)
        try:
            await asyncio.sleep(self._takes)
        finally:
            self._under_way -= 1
        if self._errors:
            raise self._errors.pop(0)
        return ANSWERS[verb]


class Counted:
    """A meter that remembers."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str, float]] = []
        self.waits: list[tuple[str, float, bool]] = []

    def called(self, provider: str, verb: str, outcome: str, seconds: float) -> None:
        self.calls.append((provider, verb, outcome, seconds))

    def waited(self, _provider: str, verb: str, seconds: float, *, refused: bool) -> None:
        self.waits.append((verb, seconds, refused))


class Luck:
    """The same throw every time."""

    def __init__(self, throw: float = 0.5) -> None:
        self._throw = throw

    def token(self, size: int) -> bytes:
        return bytes(size)

    def jitter(self) -> float:
        return self._throw


def guarded(cloud: Cloud, throttles: AccountThrottles, source: str = "acme/key", **more: Any) -> GuardedCloud:
    return GuardedCloud(cloud, source=source, throttles=throttles, **{"entropy": Luck(), **more})


def paced_cloud(
    cloud: Cloud, throttles: AccountThrottles, source: str, metrics: CloudMetrics | None = None
) -> GuardedCloud:
    """Tries once: what is seen is the rate limit alone."""
    return guarded(cloud, throttles, source, metrics=metrics, retry_policy=RetryPolicy(tries=1))


def patient(cloud: Cloud, luck: Entropy) -> GuardedCloud:
    return guarded(cloud, AccountThrottles(), entropy=luck)
