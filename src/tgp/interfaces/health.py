"""The probes, `/healthz` and `/readyz`, and on a port of its own the metrics page, `/metrics`.

Readiness says whether this replica could act if it led; it is not tied to leadership, because a rolling update waits
for the new replica to be ready while the old one still holds the Lease.
"""

from collections.abc import Callable, Iterable

from tgp.ports.http import Call, Reply

TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
METRICS = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)


NOT_CHANGED = Reply(405, b"only GET and HEAD\n", (*TEXT, ("Allow", "GET, HEAD")))


class MetricsPage:
    def __init__(self, metrics: Callable[[], bytes]) -> None:
        self._metrics = metrics

    async def handle(self, call: Call) -> Reply:
        if call.changes_things:
            return NOT_CHANGED
        if call.path.rstrip("/") == "/metrics":
            return Reply(200, self._metrics(), METRICS)
        return Reply(404, b"not found; the path is /metrics\n", TEXT)


class Probes:
    """For the kubelet, without authentication: so nothing else is served there."""

    def __init__(self, troubles: Callable[[], Iterable[str]]) -> None:
        self._troubles = troubles  # reasons why this replica is not ready; empty: it is

    async def handle(self, call: Call) -> Reply:
        if call.changes_things:
            return NOT_CHANGED
        match call.path.rstrip("/"):
            case "/healthz" | "/livez":
                return Reply(200, b"ok\n", TEXT)  # the event loop answered: that is the liveness check
            case "/readyz":
                troubles = sorted(self._troubles())
                if not troubles:
                    return Reply(200, b"ok\n", TEXT)
                return Reply(503, ("not ready:\n" + "".join(f"- {trouble}\n" for trouble in troubles)).encode(), TEXT)
        return Reply(404, b"not found; the paths are /healthz and /readyz\n", TEXT)
