"""A `Cloud` around a provider's client: rate limits, retries where they are safe, and counts, in one place.

Each call waits for its slot under the account's rate limits, and is counted and timed without that wait. A retry waits
for its slot like a first try. Only read-only verbs are retried, and only when nothing happened at the provider:
`launch` and `terminate` are sent once. The launch protocol decides whether an order is sent again: it records the order
first. A failed `terminate` is repeated by the check whether the machine is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import TypeVar
from urllib.parse import urlsplit

import msgspec

from tgp.adapters.clouds.error_answers import STRANGE
from tgp.adapters.clouds.middleware.account_throttle import LAUNCH, AccountThrottles
from tgp.adapters.clouds.middleware.metrics import CANCELLED, UNFORESEEN, WENT_WELL, CloudMetrics, NoCloudMetrics
from tgp.core.model.backoff import doubled, spread
from tgp.core.model.cloud_errors import CloudBusy, CloudError
from tgp.core.model.instance import Instance
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.cloud import Account, Cloud, HasLeftovers, KeyReport, LaunchOrder, Listing
from tgp.ports.entropy import Entropy

T = TypeVar("T")

CLEANUP = "cleanup"
SAFE_VERBS = ("offers", "find", "status", "owned", "check", "identity")  # these only read
VERBS = (*SAFE_VERBS, LAUNCH, "terminate")
SPREAD = 0.25  # of a pause that the provider named: all clients got the same time


class RetryPolicy(msgspec.Struct, frozen=True):
    """The longest duration of a call: `tries` answers and the pauses between them, each `longest` and a spread."""

    tries: int = 3
    first: timedelta = timedelta(seconds=1)  # doubles
    longest: timedelta = timedelta(seconds=15)  # of one pause; a longer Retry-After ends the retries

    def __post_init__(self) -> None:
        assert self.tries >= 1, "at least one try"

    def pause(self, failures: int, asked_for: timedelta | None, luck: float) -> timedelta | None:
        """Before the next try, after so many failures (at least one). None: give up.

        Never shorter than what the provider asked for; without one, between half and all of the doubling step.
        """
        if failures >= self.tries:
            return None
        if asked_for is not None:
            pause = max(asked_for, self.first) * (1 + SPREAD * luck)
            return pause if asked_for <= self.longest else None
        return spread(doubled(self.first, failures, self.longest), luck)


class GuardedCloud:
    """Every verb goes through `_through`. Users with the same `throttles` and `source` share one queue.

    `source` names what the provider's rate limit covers: the same for all users of one key; never the key itself.
    """

    def __init__(
        self,
        cloud: Cloud,
        *,
        source: str,
        throttles: AccountThrottles,
        entropy: Entropy,
        metrics: CloudMetrics | None = None,
        retry_policy: RetryPolicy | None = None,
        endpoint: str = "",  # that the class's settings name; empty: the provider's own
    ) -> None:
        self._cloud = cloud
        self._endpoint = endpoint
        self._source = source
        self._throttles = throttles
        self._entropy = entropy
        self._meter = metrics or NoCloudMetrics()
        self._retry_policy = retry_policy or RetryPolicy()

    @property
    def facts(self) -> CloudFacts:
        return self._cloud.facts

    async def offers(self) -> Listing:
        return await self._through("offers", self._cloud.offers)

    async def launch(self, order: LaunchOrder) -> Instance:
        return await self._through(LAUNCH, lambda: self._cloud.launch(order))

    async def find(self, token: str) -> tuple[Instance, ...]:
        return await self._through("find", lambda: self._cloud.find(token))

    async def status(self, instance_id: str) -> Instance | None:
        return await self._through("status", lambda: self._cloud.status(instance_id))

    async def terminate(self, instance_id: str) -> None:
        return await self._through("terminate", lambda: self._cloud.terminate(instance_id))

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        return await self._through("owned", lambda: self._cloud.owned(prefix))

    async def check(self) -> KeyReport:
        return await self._through("check", self._cloud.check)

    async def identity(self) -> Account:
        return await self._through("identity", self._cloud.identity)

    async def cleanup(self, token: str) -> None:
        """Providers without leftovers are not called."""
        inner = self._cloud
        if isinstance(inner, HasLeftovers):
            await self._through(CLEANUP, lambda: inner.cleanup(token))

    async def _through(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        """`ask` calls the provider once. The last `CloudBusy` of a read is raised; other errors are final."""
        if verb not in SAFE_VERBS:
            return await self._paced(verb, ask)
        for failures in range(1, self._retry_policy.tries):
            try:
                return await self._paced(verb, ask)
            except CloudBusy as error:
                pause = self._retry_policy.pause(failures, error.retry_after, self._entropy.jitter())
                if pause is None:
                    raise
            await asyncio.sleep(pause.total_seconds())
        return await self._paced(verb, ask)

    async def _paced(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        """`CloudBusy` with a time if the queue is too long: nothing was sent then."""
        throttle = self._throttles.of(self._source, self.facts)
        async with AsyncExitStack() as stack:
            await self._wait(stack.enter_async_context(throttle.turn(verb)), verb)
            try:
                return await self._counted(verb, ask)
            except CloudBusy as error:
                if error.retry_after is not None:
                    throttle.close(verb, error.retry_after)  # the other callers need not each get the same answer
                raise

    async def _wait(self, turn: Awaitable[None], verb: str) -> None:
        time = asyncio.get_running_loop().time
        started = time()
        try:
            await turn
        except CloudBusy:
            self._meter.waited(self.facts.provider, verb, time() - started, refused=True)
            raise
        if time() > started:
            self._meter.waited(self.facts.provider, verb, time() - started, refused=False)

    async def _counted(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        time = asyncio.get_running_loop().time
        started, outcome = time(), UNFORESEEN
        try:
            answer = await ask()
            outcome = WENT_WELL
        except CloudError as error:
            outcome = type(error).__name__
            self._name_endpoint(error)
            raise
        except asyncio.CancelledError:
            outcome = CANCELLED
            raise
        finally:
            self._meter.called(self.facts.provider, verb, outcome, time() - started)
        return answer

    def _name_endpoint(self, error: CloudError) -> None:
        """Another server than the provider's may have answered in this way: which one is not in its words."""
        if self._endpoint and STRANGE in str(error):
            host = urlsplit(self._endpoint).netloc.rpartition("@")[2]
            error.args = (f"{error}; asked at {host}, as settings.endpoint says", *error.args[1:])
