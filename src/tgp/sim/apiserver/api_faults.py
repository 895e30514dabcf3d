"""What each fault does to a request, worded as the real server does."""

from tgp.ports.entropy import Entropy
from tgp.ports.http import Reply
from tgp.sim.apiserver.admission.namespaces import terminating
from tgp.sim.apiserver.faults import ApiFault, ApiFaults, Hit
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Failure, conflict, expired, internal, plain_500, unauthorized
from tgp.sim.apiserver.watch import WatchFaults

WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
CHANGES = frozenset({"update", "patch", "delete"})
DEFAULT_WEBHOOK = "validate.tgp.io"
NO_FAULTS = WatchFaults()
DEFAULT_URL = "https://tgp-webhook.tgp-system.svc:443/validate?timeout=10s"


def before_identity(faults: ApiFaults, hit: Hit) -> Reply | None:
    """Faults before authentication. Load shedding answers in plain text."""
    shed = faults.strikes("too-many-requests", hit)
    if shed is None:
        return None
    headers = (
        ("Content-Type", "text/plain; charset=utf-8"),
        ("Retry-After", str(int(shed.settings.get("seconds", 1)))),
    )
    return Reply(429, b"Too many requests, please try again later.\n", headers)


def check_token_accepted(faults: ApiFaults, hit: Hit) -> None:
    if faults.strikes("unauthorized", hit):
        raise unauthorized()


def before_the_verb(faults: ApiFaults, hit: Hit, served: Served) -> None:
    """Faults that change nothing."""
    route = hit.route
    if faults.strikes("error-before", hit):
        raise plain_500("etcdserver: leader changed")
    if route.verb in CHANGES and not route.subresource.startswith("evict") and faults.strikes("conflict", hit):
        raise conflict(served.group, served.plural, route.name)
    if route.verb == "create" and route.namespace and faults.strikes("namespace-terminating", hit):
        raise terminating(served, route.name, route.namespace)
    if route.verb in WRITES:
        unreachable = faults.strikes("webhook-unreachable", hit)
        if unreachable is not None:
            raise webhook_failure(unreachable)


def webhook_failure(fault: ApiFault) -> Failure:
    name = fault.settings.get("webhook", DEFAULT_WEBHOOK)
    url = fault.settings.get("url", DEFAULT_URL)
    return internal(
        f'failed calling webhook "{name}": failed to call webhook: Post "{url}": '
        "dial tcp 10.96.0.12:443: connect: connection refused"
    )


def after_the_verb(faults: ApiFaults, hit: Hit) -> None:
    """Faults of the answer: the change happened, and the caller gets an error."""
    if hit.route.verb not in WRITES:
        return
    if faults.strikes("error-after", hit):
        raise plain_500("etcdserver: request timed out")
    if faults.strikes("timeout-after", hit):
        raise Failure(
            504,
            "Timeout",
            "Timeout: request did not complete within requested timeout - context deadline exceeded",
            {},
        )


def watch_refusal(faults: ApiFaults, hit: Hit) -> tuple[Failure | None, bool]:
    """A refusal of a new watch, and whether it comes inside the stream."""
    gone = expired("too old resource version: 1 (2)")
    if faults.strikes("watch-gone", hit):
        return gone, False
    if faults.strikes("watch-gone-inside", hit):
        return gone, True
    return None, False


class WatchFaultDraw:
    """The faults of one watch: each is drawn once, when the watch begins."""

    def __init__(self, faults: ApiFaults, hit: Hit, entropy: Entropy) -> None:
        self._faults = faults
        self._hit = hit
        self._luck = {name: entropy.jitter() for name in ("watch-lag", "watch-coalesce", "watch-silent", "watch-drop")}

    def __call__(self) -> WatchFaults:
        if not self._faults.any_on:
            return NO_FAULTS
        lag = self._holds("watch-lag")
        return WatchFaults(
            lag=float(lag.settings.get("seconds", 1.0)) if lag else 0.0,
            coalesce=self._holds("watch-coalesce") is not None,
            silent=self._holds("watch-silent") is not None,
            drop=self._holds("watch-drop") is not None,
        )

    def _holds(self, name: str) -> ApiFault | None:
        return self._faults.holds(name, self._hit, self._luck[name])


def stale_revision(faults: ApiFaults, hit: Hit, resource_version: str, current: int) -> int | None:
    """The older state a list or watch begins from; None: the present."""
    fault = faults.strikes("stale-list", hit) if hit.route.verb in {"list", "watch", "get"} else None
    if fault is None or (resource_version != "0" and not fault.settings.get("everywhere")):
        return None
    return max(0, current - int(fault.settings.get("behind", 10)))
