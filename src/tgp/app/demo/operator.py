"""The real operator in the demo world, restarted when Kubernetes would restart it."""

from collections.abc import Callable, Mapping

from tgp.adapters.compute import Threads
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.kube.revision import ASKED_EVERY
from tgp.adapters.kube.runtime import TICK
from tgp.adapters.kube.watch import USUAL, WatchTimes
from tgp.adapters.telemetry.metrics import Metrics
from tgp.app.demo.fixtures import ACCOUNT, NAMESPACE
from tgp.app.deps import Environment
from tgp.app.operator import Operator
from tgp.app.settings import Settings
from tgp.app.view.http_guards import CountingHttp
from tgp.app.view.price_ticker import machine_prices, market_summary
from tgp.app.view.stats import reconcile_stats_of
from tgp.core.model.object_key import ObjectKey
from tgp.interfaces.terminal.snapshot import MarketSummary
from tgp.ports.clock import Clock
from tgp.ports.compute import Compute
from tgp.ports.entropy import Entropy
from tgp.ports.http import Http, HttpFactory
from tgp.ports.leadership import LeadershipLost
from tgp.services.demo_http import EmbeddedResolver

MOST_LENGTHENED = 10.0  # times: a watch of five minutes
RESTARTS = 3  # lost Leases in one run; there is no other replica here, so more of them are a defect


def settings_at(speed: float) -> Settings:
    """The defaults, with a Lease that lasts as long in real time as a real one: there is no other replica."""
    usual, factor = Settings(), max(speed, 1.0)
    return Settings(
        namespace=NAMESPACE,
        listen="",
        lease_duration=usual.lease_duration * factor,
        renew_deadline=usual.renew_deadline * factor,
        retry_period=usual.retry_period * factor,
    )


def watches_at(speed: float) -> WatchTimes:
    """Longer where time passes faster: the server is in this process, and no connection to it is ever half-open."""
    times = _lengthened(speed)
    return WatchTimes(int(USUAL.at_least * times), int(USUAL.at_most * times), USUAL.silence * times)


def _lengthened(speed: float) -> float:
    return min(max(speed, 1.0), MOST_LENGTHENED)


class DemoOperator:
    """A lost Lease ends the operator's process; here the next one starts at once. Other errors are not caught."""

    def __init__(
        self,
        http: Http,
        clock: Clock,
        settings: Settings,
        dial: HttpFactory,
        *,
        speed: float = 1.0,
        entropy: Entropy | None = None,
        compute: Compute | None = None,
        budget_truth: Callable[[ObjectKey, int], float | None] | None = None,
    ) -> None:
        """`speed`: of the clock. Watches, and other things done again and again, are as rare in real time as usual."""
        self.http = CountingHttp(http)
        self.metrics = Metrics()
        self.restarts = 0
        self._settings = settings
        self._environment = Environment(
            self.http,
            clock,
            entropy or SystemEntropy(),
            ACCOUNT,
            NAMESPACE,
            compute or Threads(),
            dial=dial,
            resolver=EmbeddedResolver(),
            budget_truth=budget_truth,
            watches=watches_at(speed),
            revision_asked_every=ASKED_EVERY * _lengthened(speed),
            tick=TICK * _lengthened(speed),
        )
        self._worker = self._begin()
        self._stopping = False

    async def run(self) -> None:
        """Until `stop`. Raises what the operator raised."""
        while not self._stopping:
            try:
                await self._worker.run()
            except LeadershipLost:
                self.restarts += 1
                if self.restarts > RESTARTS:
                    raise
                self._worker = self._begin()

    def stop(self) -> None:
        self._stopping = True
        self._worker.stop()

    def facts(self) -> Mapping[str, str]:
        reconciles = reconcile_stats_of(self.metrics)
        facts = {
            "operator": "leads" if self._worker.leads else "waits for the Lease",
            "reconciles": str(reconciles.taken),
            "writes": str(self.http.writes),
            "failed": str(reconciles.failed),
        }
        return facts | ({"restarts": str(self.restarts)} if self.restarts else {})

    @property
    def held(self) -> str:
        return self._worker.held

    def machine_prices(self) -> Mapping[tuple[str, int], int]:
        return machine_prices(self._worker.stores.market.book)

    def market_summary(self) -> MarketSummary:
        return market_summary(self._worker.stores.market, self._environment.clock.now())

    def _begin(self) -> Operator:
        return Operator(self._settings, self._environment, self.metrics)
