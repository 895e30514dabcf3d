"""HTTP wrappers for the API server that count writes, or refuse them."""

from tgp.api.resource import LEASE
from tgp.ports.http import Answered, Call, Http, NeverLeft, Reply, WrappedHttp

RENEWALS = f"/apis/{LEASE.api_version}/"


class CountingHttp(WrappedHttp):
    """Counts accepted writes; renewals of a Lease are counted separately."""

    def __init__(self, inner: Http) -> None:
        super().__init__(inner)
        self.writes = 0
        self.renewals = 0

    def _sent(self, call: Call) -> Answered:
        return lambda reply: self._count(call, reply)

    def _count(self, call: Call, reply: Reply | None) -> None:
        if reply is None or not reply.ok or not call.changes_things:
            return
        if call.path.startswith(RENEWALS):
            self.renewals += 1
        else:
            self.writes += 1


class ReadOnlyHttp(WrappedHttp):
    """Refuses every call that changes something. `refused` should stay 0."""

    def __init__(self, inner: Http) -> None:
        super().__init__(inner)
        self.refused = 0

    def _changed(self, call: Call) -> Call:
        if call.changes_things:
            self.refused += 1
            raise NeverLeft(f"{call.method} {call.path} was not sent: this client is read-only")
        return call
