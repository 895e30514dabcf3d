"""The ways out of a replica that has to lead: what changes anything leaves while it does, or not at all.

Listing by POST is held to the same: only a leader makes rounds, so nothing is lost by it. Where there is no Lease (a
replica that only looks, or the only one) there is no fence either, and calls pass as they are: that nothing is bought
there is the word of the one gate that buys.
"""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta

from tgp.ports.http import Call, Dial, Http, NeverLeft, Reply, Stream
from tgp.ports.leadership import Fence


def fenced(dial: Dial, fence: Fence | None) -> Dial:
    """The same ways, each changing call good for no longer than we lead; `NeverLeft` where we do not."""
    if fence is None:
        return dial

    def leading(base_url: str, *, address: str = "") -> Http:
        return _Fenced(dial(base_url, address=address), fence)

    return leading


class _Fenced:
    def __init__(self, inner: Http, fence: Fence) -> None:
        self._inner = inner
        self._fence = fence

    async def send(self, call: Call) -> Reply:
        return await self._inner.send(self._bounded(call))

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(self._bounded(call), idle=idle)

    def _bounded(self, call: Call) -> Call:
        if not call.changes_things:
            return call
        deadline = self._fence.deadline()
        if deadline is None:
            # Not NotLeading: a provider's client knows this one, and takes it for what it is: nothing was sent.
            raise NeverLeft(f"{call.method} {call.path} was not sent: this replica does not lead")
        return replace(call, not_after=deadline if call.not_after is None else min(call.not_after, deadline))
