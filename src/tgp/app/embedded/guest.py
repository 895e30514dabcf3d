"""The operator as a guest in the embedded world: the real one, started again where Kubernetes would start it again."""

from collections.abc import Mapping

from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.telemetry.metrics import Metrics
from tgp.app.embedded.market import EmbeddedResolver
from tgp.app.embedded.stock import ACCOUNT, NAMESPACE
from tgp.app.operator import Operator, Outside
from tgp.app.settings import Settings
from tgp.app.view.doors import CountingHttp
from tgp.app.view.facts import turns_of
from tgp.app.view.wares import stall
from tgp.ports.clock import Clock
from tgp.ports.entropy import Entropy
from tgp.ports.http import Dial, Http
from tgp.ports.leadership import LeadershipLost
from tgp.surfaces.terminal.scene import Stall

RESTARTS = 3  # lost Leases in one visit; here nobody else wants it, so more of them are a defect


def settings_at(speed: float) -> Settings:
    """The usual ones, with a Lease as long on the wall as a real one: nobody else wants it, so nothing hurries."""
    usual, factor = Settings(), max(speed, 1.0)
    return Settings(
        namespace=NAMESPACE,
        listen="",
        lease_duration=usual.lease_duration * factor,
        renew_deadline=usual.renew_deadline * factor,
        retry_period=usual.retry_period * factor,
    )


class Guest:
    """A lost Lease ends the operator's process; here its next one begins at once. Any other error is not caught."""

    def __init__(
        self, http: Http, clock: Clock, settings: Settings, dial: Dial, entropy: Entropy | None = None
    ) -> None:
        self.http = CountingHttp(http)
        self.metrics = Metrics()
        self.restarts = 0
        self._settings = settings
        self._outside = Outside(
            self.http,
            clock,
            entropy or SystemEntropy(),
            ACCOUNT,
            NAMESPACE,
            dial=dial,
            resolver=EmbeddedResolver(),
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
        turns = turns_of(self.metrics)
        facts = {
            "operator": "leads" if self._worker.leads else "waits for the Lease",
            "turns": str(turns.taken),
            "writes": str(self.http.writes),
            "failed": str(turns.failed),
        }
        return facts | ({"restarts": str(self.restarts)} if self.restarts else {})

    @property
    def held(self) -> str:
        return self._worker.held

    def stall(self) -> Stall:
        return stall(self._worker.market, self._outside.clock.now())

    def _begin(self) -> Operator:
        return Operator(self._settings, self._outside, self.metrics)
