"""HTTP wrappers for the API server that count writes, or refuse them."""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta

from tgp.api.resource import LEASE
from tgp.ports.http import Call, Http, NeverLeft, Reply, Stream

RENEWALS = f"/apis/{LEASE.api_version}/"


class CountingHttp:
    """Passes everything on and counts accepted writes; renewals of a Lease are counted separately."""

    def __init__(self, inner: Http) -> None:
        self._inner = inner
        self.writes = 0
        self.renewals = 0

    async def send(self, call: Call) -> Reply:
        reply = await self._inner.send(call)
        if call.changes_things and reply.ok:
            if call.path.startswith(RENEWALS):
                self.renewals += 1
            else:
                self.writes += 1
        return reply

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(call, idle=idle)


class ReadOnlyHttp:
    """Refuses every call that changes something. `refused` should stay 0."""

    def __init__(self, inner: Http) -> None:
        self._inner = inner
        self.refused = 0

    async def send(self, call: Call) -> Reply:
        self._check(call)
        return await self._inner.send(call)

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        self._check(call)
        return self._inner.stream(call, idle=idle)

    def _check(self, call: Call) -> None:
        if call.changes_things:
            self.refused += 1
            raise NeverLeft(f"{call.method} {call.path} was not sent: this client is read-only")
