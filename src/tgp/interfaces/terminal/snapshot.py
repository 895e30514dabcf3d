"""What the view shows, as plain values: gathered once per frame, drawn on the screen or printed as lines."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

KINDS = {"GPUNodeClass": "class", "GPUNodePool": "pool", "GPURequest": "request", "GPUWorkloadBudget": "budget"}


@dataclass(frozen=True, slots=True)
class CostRow:
    """What an object costs."""

    hourly_microusd: int  # now; 0: nothing
    spent_microusd: int  # so far, an estimate
    ends_at: datetime | None = None  # its machine is terminated then, as things stand


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """One object of a tgp kind."""

    kind: str
    name: str  # namespace/name, or name
    state: str  # one word for people; empty: no status yet
    good: bool | None  # None: unknown
    reason: str
    message: str
    since: datetime
    cost: CostRow | None = None  # None: objects of this kind have no cost
    over: bool = False  # it has ended and stays as a record

    @property
    def label(self) -> str:
        return label(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One Node."""

    name: str
    ready: bool
    gpus: int
    gpus_used: int
    pods: int
    note: str = ""  # what kind of machine it is, in a word or two


@dataclass(frozen=True, slots=True)
class EventRow:
    """One Event, or one log line."""

    at: datetime
    warning: bool
    about: str
    reason: str
    message: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class ScenarioLine:
    """One step of the demo scenario, in a sentence."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class PriceRow:
    """The cheapest GPU-hour of one model."""

    gpu: str
    microusd: int
    provider: str
    spot: bool
    trend: int  # compared with an hour ago: 1 more expensive, -1 cheaper, 0 the same


@dataclass(frozen=True, slots=True)
class MarketSummary:
    """The market in one line."""

    offers: int = 0
    sources: int = 0
    prices: tuple[PriceRow, ...] = ()  # the cheapest first


@dataclass(frozen=True, slots=True)
class WaitingRow:
    """A pod that waits for a GPU."""

    name: str  # namespace/name
    since: datetime
    reason: str  # what its last Event tells of pools; empty: there is none yet
    ordered: bool = False  # a machine is on its way


def waiting_groups(rows: Iterable[WaitingRow]) -> list[list[WaitingRow]]:
    """Pods that wait for the same reason together: those without a machine on its way first, then the longest wait."""
    groups: dict[tuple[bool, str], list[WaitingRow]] = {}
    for row in sorted(rows, key=lambda row: (row.ordered, row.since, row.name)):
        groups.setdefault((row.ordered, row.reason), []).append(row)
    return list(groups.values())


@dataclass(frozen=True, slots=True)
class PlanSummary:
    """The last plan of the pools, and what their machines cost."""

    at: datetime
    gap: str  # "0.8%"; empty: not proven
    orders: int
    unserved: int
    hourly_microusd: int = 0  # of the machines of pools on which pods run
    alone_microusd: int = 0  # what those pods would cost with one machine each; 0: unknown
    alone_of: Mapping[str, int] = field(default_factory=dict)  # of these, by the pod's uid
    gap_without: str = ""  # what the best possible plan need not keep: "zone topology and pool weights"


@dataclass(frozen=True, slots=True)
class Snapshot:
    title: str
    now: datetime
    pace: str  # how fast the demo's time runs, in words; empty: real time
    url: str
    look: str  # the command for another terminal
    operator: Mapping[str, str]  # short facts about the process, in order
    objects: tuple[ObjectRow, ...]  # problems first
    machines: tuple[NodeRow, ...]
    pods: Mapping[str, int]  # how many in which state, in words
    events: tuple[EventRow, ...]  # newest last
    hint: str  # one suggested next command
    market: MarketSummary = field(default=MarketSummary())
    troubles: tuple[str, ...] = field(default=())  # what cannot be shown, and why
    objects_known: bool = True  # False: no tgp kind could be read, so an empty list means unknown
    machines_known: bool = True
    rented: int = 0  # machines that cost something, or may
    hourly_microusd: int = 0  # all of them together
    scenario_lines: tuple[ScenarioLine, ...] = ()  # newest last; empty: no scenario runs
    held: str = ""  # why purchases are paused; empty: they are not
    waiting: tuple[WaitingRow, ...] = ()  # the longest wait first
    plan: PlanSummary | None = None  # None: no pool has planned yet

    @property
    def problems(self) -> int:
        return sum(row.good is False for row in self.objects)


def label(kind: str, name: str) -> str:
    """An object in two words: `pool ml/training`."""
    return f"{KINDS.get(kind, kind.lower())} {name}"


def moment(at: datetime, now: datetime) -> str:
    """The time of day, with the date if it is not today."""
    return f"{at:%H:%M:%SZ}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%MZ}"


def age(length: timedelta) -> str:
    """As kubectl prints it: two units at most."""
    seconds = max(int(length.total_seconds()), 0)
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours = seconds // 60, seconds // 3600
    if minutes < 10:
        return f"{minutes}m{seconds % 60}s" if seconds % 60 else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"
