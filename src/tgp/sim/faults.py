"""The faults of a simulation, by name and rate, as a value.

Each seed may draw its own mix (swarm): a mix that has everything hides what one fault alone would show. Rates of calls
streams and the API server are chances per call, stream or watch; rates of processes are counts per process and hour.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random

from tgp.sim.entropy import stream


class Fault(StrEnum):
    # Of a call.
    REFUSED = "refused"  # no connection: it provably never left
    LOST = "lost"  # it left and never arrived
    LOST_ANSWER = "lost-answer"  # it happened, and no answer came back
    SLOW = "slow"  # it happened, and the answer comes after the caller's patience
    TWICE = "twice"  # something on the way delivered it two times
    PROXY = "proxy-502"  # a proxy answers in HTML; nothing happened
    PROXY_AFTER = "proxy-502-after"  # the same words, and it happened
    BUSY = "busy-429"  # asked to come back later; nothing happened
    ERROR = "error-500"  # nothing happened
    ERROR_AFTER = "error-500-after"  # it happened
    # Of a stream, some time after it opened.
    SILENT = "stream-silent"  # half-open: no byte more, and no end
    CUT = "stream-cut"  # the connection breaks in the middle of a line
    TRUNCATED = "stream-truncated"  # a clean end in the middle of a line
    LAGGING = "stream-lagging"  # everything arrives, late
    # Of the API server: what it answers, and what its watches and lists show.
    API_CONFLICT = "api-conflict"
    API_BUSY = "api-too-many-requests"
    API_ERROR = "api-error-before"
    API_ERROR_AFTER = "api-error-after"
    API_TIMEOUT_AFTER = "api-timeout-after"
    API_WEBHOOK = "api-webhook-unreachable"
    WATCH_LAG = "api-watch-lag"
    WATCH_COALESCE = "api-watch-coalesce"
    WATCH_SILENT = "api-watch-silent"
    WATCH_GONE = "api-watch-gone"
    WATCH_GONE_INSIDE = "api-watch-gone-inside"
    WATCH_DROP = "api-watch-drop"
    STALE_LIST = "api-stale-list"
    # Of a process.
    CRASH = "crash"
    PAUSE = "pause"  # it stands still for longer than a lease lives, then goes on as if nothing had been
    PARTITION = "partition"  # it is cut off from one endpoint
    CLOCK = "clock"  # its wall clock jumps


OF_CALLS = (
    Fault.REFUSED,
    Fault.LOST,
    Fault.LOST_ANSWER,
    Fault.SLOW,
    Fault.PROXY,
    Fault.PROXY_AFTER,
    Fault.BUSY,
    Fault.ERROR,
    Fault.ERROR_AFTER,
)  # TWICE is drawn only where a scenario asks for it: no cloud is known to have such a path
OF_STREAMS = (Fault.SILENT, Fault.CUT, Fault.TRUNCATED, Fault.LAGGING)
OF_API_CALLS = (
    Fault.API_CONFLICT,
    Fault.API_BUSY,
    Fault.API_ERROR,
    Fault.API_ERROR_AFTER,
    Fault.API_TIMEOUT_AFTER,
    Fault.API_WEBHOOK,
)
OF_API_READS = (
    Fault.WATCH_LAG,
    Fault.WATCH_COALESCE,
    Fault.WATCH_SILENT,
    Fault.WATCH_GONE,
    Fault.WATCH_GONE_INSIDE,
    Fault.WATCH_DROP,
    Fault.STALE_LIST,
)
OF_PROCESSES = (Fault.CRASH, Fault.PAUSE, Fault.PARTITION, Fault.CLOCK)

AFTER_IT_HAPPENED = frozenset({Fault.LOST_ANSWER, Fault.SLOW, Fault.PROXY_AFTER, Fault.ERROR_AFTER})
SWARM_CALL_RATE = (0.002, 0.08)  # from "once in a day" to "a bad network"; drawn on a logarithmic scale
SWARM_STREAM_RATE = (0.05, 0.8)
SWARM_HOURLY_RATE = (0.2, 12.0)  # up to a crash every five minutes
SWARM_ABSENT = 0.5  # the chance that a mix has none of a given fault


@dataclass(frozen=True, slots=True)
class Faults:
    rates: Mapping[Fault, float] = field(default_factory=dict)
    shuffled: bool = False  # tasks that are ready together run in a seeded order

    def rate(self, fault: Fault) -> float:
        return self.rates.get(fault, 0.0)

    def by_index(self, **rates: float) -> "Faults":
        """A copy with these faults set, by their names in lower case: `by_index(lost_answer=0.1)`."""
        named = {Fault[name.upper()]: rate for name, rate in rates.items()}
        return replace(self, rates={**self.rates, **named})

    def of_a_call(self, luck: Random) -> Fault | None:
        """At most one fault per call: two at once look like one of them."""
        return self._draw(OF_CALLS_AND_TWICE, luck)

    def of_a_stream(self, luck: Random) -> Fault | None:
        return self._draw(OF_STREAMS, luck)

    def _draw(self, kinds: tuple[Fault, ...], luck: Random) -> Fault | None:
        dice = luck.random()
        for kind in kinds:
            dice -= self.rates.get(kind, 0.0)
            if dice < 0:
                return kind
        return None


OF_CALLS_AND_TWICE = (*OF_CALLS, Fault.TWICE)
NONE = Faults()
ALL = Faults(
    {
        **dict.fromkeys(OF_CALLS, 0.01),
        **dict.fromkeys(OF_STREAMS, 0.15),
        **dict.fromkeys(OF_API_CALLS, 0.01),
        **dict.fromkeys(OF_API_READS, 0.1),
        Fault.CRASH: 2.0,
        Fault.PAUSE: 1.0,
        Fault.PARTITION: 1.0,
        Fault.CLOCK: 0.5,
    },
    shuffled=True,
)


def swarm(seed: int | str) -> Faults:
    """The mix that this seed draws: most runs lack most faults, so that each fault is also met alone."""
    luck = stream(seed, "swarm")
    rates: dict[Fault, float] = {}
    for kinds, (low, high) in (
        (OF_CALLS, SWARM_CALL_RATE),
        (OF_STREAMS, SWARM_STREAM_RATE),
        (OF_PROCESSES, SWARM_HOURLY_RATE),
        (OF_API_CALLS, SWARM_CALL_RATE),
        (OF_API_READS, SWARM_STREAM_RATE),
    ):
        for kind in kinds:
            absent, height = luck.random() < SWARM_ABSENT, luck.random()
            if not absent:
                rates[kind] = float(low * (high / low) ** height)
    return Faults(rates, shuffled=luck.random() < SWARM_ABSENT)
