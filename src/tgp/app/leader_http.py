"""HTTP for a replica that has to lead: a changing call is sent while it leads, or not at all.

Listing by POST is held to the same: only the leader lists machines. Where there is no Lease (an observing replica, or
the only one) there is no fence, and calls pass as they are; `LeaderGuard` keeps an observing replica from buying.
"""

from dataclasses import replace

from tgp.ports.http import Call, Http, HttpFactory, NeverLeft, WrappedHttp
from tgp.ports.leadership import Fence


def leader_http(dial: HttpFactory, fence: Fence | None) -> HttpFactory:
    """The same clients; each changing call is valid while we lead, and raises `NeverLeft` where we do not."""
    if fence is None:
        return dial

    def leading(base_url: str, *, address: str = "") -> Http:
        return _LeaderHttp(dial(base_url, address=address), fence)

    return leading


class _LeaderHttp(WrappedHttp):
    def __init__(self, inner: Http, fence: Fence) -> None:
        super().__init__(inner)
        self._fence = fence

    def _changed(self, call: Call) -> Call:
        if not call.changes_things:
            return call
        deadline = self._fence.deadline()
        if deadline is None:
            # Not NotLeading: a provider's client knows NeverLeft and reads it rightly: nothing was sent.
            raise NeverLeft(f"{call.method} {call.path} was not sent: this replica does not lead")
        return replace(call, not_after=deadline if call.not_after is None else min(call.not_after, deadline))
