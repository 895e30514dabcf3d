"""The time of day of the API server, continued by this machine's boot clock.

What is stored in the cluster is stamped by the API server, or compared with its stamps: a host whose wall clock jumps
by an hour, or stops, must neither terminate a machine early nor keep it for ever. Each reply carries the
server's second. That second was correct at some time between call and reply, so each reply bounds the
time from both sides, however slow the network was; a time within the bounds is kept.
"""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

from tgp.ports.clock import Clock
from tgp.ports.http import Answered, Call, Http, Reply, WrappedHttp

RESOLUTION = timedelta(seconds=1)  # of a Date header: the rest of the second was cut off
NEAR = timedelta(seconds=2)  # a difference up to this is followed at once, gradually; a larger one has to last
BELIEVED_AFTER = 600.0  # seconds of boot time: one of several servers may be wrong, or a load balancer
BELIEVED_WITH = 10  # replies in that time, at least: two of them around a pause prove nothing
NAMES = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
MONTHS = {name: number for number, name in enumerate(NAMES, 1)}
SLEW = 0.05  # of the time since the last correction: so small that time never runs backwards


@dataclass(slots=True)
class _Doubt:
    """A different time that servers keep reporting."""

    born: datetime  # when the boot clock was zero, by their time
    since: float  # boot time of the first such reply
    replies: int = 1


class ServerClock:
    """Implements `Clock` around the machine's own. Before the first reply the machine's wall clock counts.

    It steps only when every reply of ten minutes had the same other time; otherwise it never runs backwards.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._born: datetime | None = None  # when the boot clock was zero; None: no reply yet
        self._corrected_at = 0.0
        self._doubt: _Doubt | None = None
        self._last_read: tuple[str, datetime | None] = ("", None)

    def now(self) -> datetime:
        if self._born is None:
            return self._clock.now()
        return self._born + timedelta(seconds=self._clock.boottime())

    def boottime(self) -> float:
        return self._clock.boottime()

    @property
    def skew(self) -> timedelta:
        """How far the machine's wall clock is ahead."""
        return self._clock.now() - self.now()

    @property
    def disputed(self) -> bool:
        """True: the last reply had a very different time."""
        return self._doubt is not None

    def heard(self, date: str, sent: float) -> None:
        """A reply came just now, to a call sent at `sent` (boot time). An invalid Date is ignored."""
        told = self._read(date)
        if told is None:
            return
        received = self._clock.boottime()
        earliest = told - timedelta(seconds=received)
        latest = told + RESOLUTION - timedelta(seconds=sent)
        if self._born is None:
            # The machine's own clock, if it agrees: it is finer than whole seconds.
            self._born = _within(self._clock.now() - timedelta(seconds=received), earliest, latest)
            self._corrected_at = received
        elif abs(_within(self._born, earliest, latest) - self._born) <= NEAR:
            self._doubt = None
            self._follow(_within(self._born, earliest, latest), received)
        else:
            self._ponder(earliest, latest, received)

    def _follow(self, born: datetime, received: float) -> None:
        assert self._born is not None
        most = timedelta(seconds=SLEW * max(0.0, received - self._corrected_at))
        self._born = _within(born, self._born - most, self._born + most)
        self._corrected_at = received

    def _ponder(self, earliest: datetime, latest: datetime, received: float) -> None:
        assert self._born is not None
        doubt = self._doubt
        if doubt is None or abs((said := _within(doubt.born, earliest, latest)) - doubt.born) > NEAR:
            self._doubt = _Doubt(_within(self._born, earliest, latest), received)
            return
        doubt.born = said
        doubt.replies += 1
        if received - doubt.since >= BELIEVED_AFTER and doubt.replies >= BELIEVED_WITH:
            self._born, self._doubt, self._corrected_at = said, None, received

    def _read(self, date: str) -> datetime | None:
        if self._last_read[0] != date:  # many replies in one second: read once
            self._last_read = (date, _moment(date))
        return self._last_read[1]


class TimedHttp(WrappedHttp):
    """The same connection, with every reply reported to the clock."""

    def __init__(self, inner: Http, clock: ServerClock) -> None:
        super().__init__(inner)
        self._clock = clock

    def _sent(self, call: Call) -> Answered:  # noqa: ARG002 - every call is alike
        sent = self._clock.boottime()
        return lambda reply: self._tell(reply, sent)

    def _tell(self, reply: Reply | None, sent: float) -> None:
        if reply is not None and reply.status < 500:  # 5xx may come from a proxy with a clock of its own
            self._clock.heard(reply.header("Date"), sent)


def _within(moment: datetime, earliest: datetime, latest: datetime) -> datetime:
    return min(max(moment, earliest), latest)


def _moment(date: str) -> datetime | None:
    """`Tue, 17 Nov 2026 08:12:31 GMT`, as servers write it; other forms that mail allows take their time."""
    if len(date) == 29 and date.endswith(" GMT") and (month := MONTHS.get(date[8:11])):
        with suppress(ValueError):
            time = (int(date[17:19]), int(date[20:22]), int(date[23:25]))
            return datetime(int(date[12:16]), month, int(date[5:7]), *time, tzinfo=UTC)
    try:
        moment = parsedate_to_datetime(date)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return moment.astimezone(UTC) if moment.tzinfo is not None else None
