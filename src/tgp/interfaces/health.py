"""The probes and the metrics page: `/healthz`, `/readyz`, `/metrics`.

Readiness says whether this replica could act if it led; it is not tied to leadership, because a rolling update waits
for the new replica to be ready while the old one still holds the Lease.
"""

from collections.abc import Callable, Iterable

from tgp.ports.http import Call, Reply

TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
METRICS = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)


class Probes:
    def __init__(
        self,
        troubles: Callable[[], Iterable[str]],  # reasons why this replica is not ready; empty: it is
        metrics: Callable[[], bytes],
    ) -> None:
        self._troubles = troubles
        self._metrics = metrics

    async def handle(self, call: Call) -> Reply:
        if call.changes_things:
            return Reply(405, b"only GET and HEAD\n", (*TEXT, ("Allow", "GET, HEAD")))
        match call.path.rstrip("/"):
            case "/healthz" | "/livez":
                return Reply(200, b"ok\n", TEXT)  # the event loop answered: that is the liveness check
            case "/readyz":
                troubles = sorted(self._troubles())
                if not troubles:
                    return Reply(200, b"ok\n", TEXT)
                return Reply(503, ("not ready:\n" + "".join(f"- {trouble}\n" for trouble in troubles)).encode(), TEXT)
            case "/metrics":
                return Reply(200, self._metrics(), METRICS)
        return Reply(404, b"not found; the paths are /healthz, /readyz and /metrics\n", TEXT)
