"""Keys to reconcile, each at most once at a time.

* A key is queued once however often it is added; added during its own reconcile, it is queued again after it.
* `add_at` keeps the earliest time asked for. A reconcile that comes sooner, for another reason, replaces it: the
  reconciler returns a new time.
* A failed key comes back after a wait that doubles up to a bound. A change to it brings that forward, though not below
  the first wait, so a key whose failing reconcile changes itself cannot spin.
* Retries as a whole pass a rate limit, so a thousand failing keys do not become a thousand requests a second.
* First come, first served: a failing key queues behind the others like any key. In a long line some may go first; then
  every fourth turn is still that of the key that came first.

Time is the running loop's.
"""

import asyncio
import heapq
from collections import deque
from collections.abc import Callable

from tgp.core.model.backoff import Backoff
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token_bucket import TokenBucket, TokenRate
from tgp.ports.entropy import Entropy

RETRY = Backoff(first=1.0, cap=300.0)
RETRIES = TokenRate(per_second=10.0, burst=100)  # client-go's default for a controller's retries
MIN_GAP = 0.5  # seconds between the failure of a key and its next reconcile, whatever changes
LONG_LINE = 64  # keys: in a longer line some go first
TURNS = 4  # one of so many is that of the key that came first
STALE_TIMERS = 64  # superseded timers in the heap before it is rebuilt, besides as many as are live


class Queue:
    def __init__(
        self,
        entropy: Entropy,
        *,
        retry: Backoff = RETRY,
        rate: TokenRate = RETRIES,
        first: Callable[[ObjectKey], bool] | None = None,  # whether a key goes first in a long line; None: none does
    ) -> None:
        self._entropy = entropy
        self._first = first
        self._retry = retry
        self._bucket = TokenBucket(rate)
        self._line: deque[ObjectKey] = deque()  # all that are queued, and some that were taken from the front
        self._front: deque[ObjectKey] = deque()  # those that go first, since the line is long
        self._turn = 0
        self._waiting: set[ObjectKey] = set()  # queued; looked up, never iterated
        self._at_work: dict[ObjectKey, bool] = {}  # True: it was added meanwhile
        self._due: dict[ObjectKey, float] = {}  # loop time
        self._timers: list[tuple[float, int, ObjectKey]] = []
        self._order = 0  # breaks ties in insertion order
        self._alarm: asyncio.TimerHandle | None = None
        self._failures: dict[ObjectKey, int] = {}
        self._not_before: dict[ObjectKey, float] = {}  # keys that failed last
        self._idle: deque[asyncio.Future[None]] = deque()  # idle workers
        self._stopped = False

    def __len__(self) -> int:
        """Queued keys, without those in progress or waiting for a time."""
        return len(self._waiting)

    @property
    def timed(self) -> int:
        return len(self._due)

    @property
    def failing(self) -> int:
        return len(self._failures)

    def failures(self, key: ObjectKey) -> int:
        """How often it failed in a row."""
        return self._failures.get(key, 0)

    # -- adding keys -----------------------------------------------------------------------------------------------

    def add(self, key: ObjectKey) -> None:
        """Reconcile `key` soon."""
        if key in self._waiting or self._stopped:
            return
        if key in self._at_work:
            self._at_work[key] = True
            return
        if self._not_before and key in self._not_before:
            self.add_at(key, self._not_before[key])
            return
        self._waiting.add(key)
        self._line.append(key)
        if self._first is not None and len(self._waiting) > LONG_LINE and self._first(key):
            self._front.append(key)
        if self._idle:
            self._wake()

    def add_at(self, key: ObjectKey, when: float) -> None:
        """Reconcile at loop time `when`, or before."""
        due = self._due.get(key)
        if self._stopped or (due is not None and due <= when):
            return
        self._due[key] = when
        self._order += 1
        heapq.heappush(self._timers, (when, self._order, key))
        if len(self._timers) > 2 * len(self._due) + STALE_TIMERS:
            self._rebuild()
        self._set_alarm()

    # -- taking keys -----------------------------------------------------------------------------------------------

    def take(self) -> ObjectKey | None:
        """The next key, then in progress until `done` or `failed`; None: the queue is empty or stopped."""
        if not self._waiting or self._stopped:
            return None
        key = self._next_in_line()
        self._waiting.discard(key)
        self._at_work[key] = False
        if self._due:
            self._due.pop(key, None)
        return key

    async def next(self) -> ObjectKey | None:
        """The next key, waiting for one; None: the queue stopped."""
        while not self._stopped:
            key = self.take()
            if key is not None:
                return key
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                if waiter.done() and not waiter.cancelled():
                    self._wake()  # this worker was cancelled: wake the next
                elif waiter in self._idle:
                    self._idle.remove(waiter)
                raise
        return None

    def done(self, key: ObjectKey, again_at: float | None = None) -> None:
        """The reconcile succeeded; the next at loop time `again_at`, or when something changes."""
        if self._failures:
            self._failures.pop(key, None)
            self._not_before.pop(key, None)
        again = self._at_work.pop(key)
        if again:
            self.add(key)
        if again_at is not None:
            self.add_at(key, again_at)

    def failed(self, key: ObjectKey, at_least: float = 0.0) -> float:
        """The reconcile failed; it is repeated after the returned wait, in seconds, not below `at_least`."""
        now = asyncio.get_running_loop().time()
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        wait = max(self._retry.wait(failures, self._entropy.jitter()), at_least) + self._bucket.book(now)
        again = self._at_work.pop(key)
        self._not_before[key] = now + max(MIN_GAP, at_least)
        self.add_at(key, self._not_before[key] if again and self._not_before[key] < now + wait else now + wait)
        return wait

    def stop(self) -> None:
        """No more reconciles: waiting workers return, working ones finish theirs."""
        self._stopped = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        while self._idle:
            self._wake()

    def _next_in_line(self) -> ObjectKey:
        self._turn = (self._turn + 1) % TURNS
        if len(self._waiting) <= LONG_LINE:
            self._front.clear()
        elif self._turn:
            while self._front:
                if (key := self._front.popleft()) in self._waiting:
                    return key
        while (key := self._line.popleft()) not in self._waiting:
            pass
        return key

    # -- internals-------------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _rebuild(self) -> None:
        self._timers = [entry for entry in self._timers if self._due.get(entry[2]) == entry[0]]
        heapq.heapify(self._timers)

    def _set_alarm(self) -> None:
        while self._timers and self._due.get(self._timers[0][2]) != self._timers[0][0]:
            heapq.heappop(self._timers)  # superseded
        if not self._timers:
            return
        when = self._timers[0][0]
        if self._alarm is not None:
            if self._alarm.when() <= when and not self._alarm.cancelled():
                return
            self._alarm.cancel()
        self._alarm = asyncio.get_running_loop().call_at(when, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        now = asyncio.get_running_loop().time()
        while self._timers and self._timers[0][0] <= now:
            when, _, key = heapq.heappop(self._timers)
            if self._due.get(key) == when:
                del self._due[key]
                self._not_before.pop(key, None)
                self.add(key)
        self._set_alarm()
