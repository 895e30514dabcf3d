"""The invariants about secrets and places: I21 to I23."""

import base64
import logging
from collections.abc import Iterable, Iterator
from urllib.parse import quote

from tgp.ports.http import Call
from tgp.sim.checkers.recorder import Checker, Recorder
from tgp.sim.process import Host
from tgp.sim.router import Exchange
from tgp.sim.world import KUBERNETES

SECRETS = "secrets"
TOKEN_SECRET = "bootstrap-token-"  # noqa: S105 - how the names of such Secrets begin


class NoCanary(Checker):
    """I21: no secret that was planted is in an object or Event we write, an address we call, or a line we log."""

    invariant = "I21"

    def __init__(self, recorder: Recorder, canaries: Iterable[str]) -> None:
        super().__init__(recorder)
        self._forms: dict[bytes, str] = {}
        for canary in canaries:
            self.learn(canary)
        self._ears = _Ears(self)
        logging.getLogger().addHandler(self._ears)

    def learn(self, canary: str) -> None:
        """One more, planted just now. What is empty is no secret."""
        if canary:
            self._forms |= {form.encode(): canary[:8] for form in _spellings(canary)}

    def close(self) -> None:
        logging.getLogger().removeHandler(self._ears)

    def tried(self, host: Host, endpoint: str, call: Call) -> None:
        self.search(f"{call.path} {call.query}".encode(), f"an address that {host.name} called at {endpoint}")

    def changing(self, exchange: Exchange) -> None:
        if exchange.endpoint.name == KUBERNETES:
            self.search(exchange.call.body, f"what {exchange.who} wrote to {exchange.call.path}")

    def search(self, content: bytes, where: str) -> None:
        """Also for pages that are served: metrics, a dashboard."""
        for form, canary in self._forms.items():
            if form in content:
                self.blame(f"the secret {canary}… is in {where}")


def _spellings(canary: str) -> Iterator[str]:
    yield canary
    yield quote(canary, safe="")
    yield base64.b64encode(canary.encode()).decode().rstrip("=")


class _Ears(logging.Handler):
    def __init__(self, checker: NoCanary) -> None:
        super().__init__(logging.DEBUG)
        self._checker = checker

    def emit(self, record: logging.LogRecord) -> None:
        said = f"{record.getMessage()} {record.__dict__} {record.exc_text or record.exc_info or ''}"
        self._checker.search(said.encode(), f"a log line of {record.name}")


class OwnSecretsOnly(Checker):
    """I22: Secrets are read from the operator's own namespace, by name or there; from nowhere else.

    But for bootstrap tokens, which have their only place in kube-system: made there, and touched by their name.
    """

    invariant = "I22"

    def tried(self, host: Host, endpoint: str, call: Call) -> None:
        if endpoint != KUBERNETES or SECRETS not in call.path:
            return
        parts = call.path.strip("/").split("/")
        if parts[:2] != ["api", "v1"] or SECRETS not in (parts[2], *parts[4:5]):
            return
        if parts[2:4] == ["namespaces", "kube-system"]:
            named = len(parts) > 5 and parts[5].startswith(TOKEN_SECRET)
            if named or (call.method == "POST" and len(parts) == 5):
                return
        if parts[2:4] != ["namespaces", self.recorder.namespace]:
            self.blame(f"{host.name}/{host.number} asked for {call.method} {call.path}")


class KnownPlaces(Checker):
    """I23: nothing is ever sent to an address that is not configured."""

    invariant = "I23"

    def __init__(self, recorder: Recorder, places: Iterable[str]) -> None:
        super().__init__(recorder)
        self._places = frozenset(places) | {KUBERNETES}

    def tried(self, host: Host, endpoint: str, call: Call) -> None:
        if endpoint not in self._places:
            self.blame(f"{host.name}/{host.number} called {call.method} {endpoint}{call.path}")
