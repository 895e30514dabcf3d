"""What the view shows, as plain values: gathered once a frame, drawn by the screen, told by the lines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

KINDS = {"GPUNodeClass": "class", "GPUNodePool": "pool", "GPURequest": "request", "GPUWorkloadBudget": "budget"}


@dataclass(frozen=True, slots=True)
class Purse:
    """What an object costs."""

    hourly_microusd: int  # now; 0: nothing
    spent_microusd: int  # so far, an estimate
    ends_at: datetime | None = None  # its machine is given back then, as things stand


@dataclass(frozen=True, slots=True)
class Thing:
    """One object of ours."""

    kind: str
    name: str  # namespace/name, or name
    state: str  # a word for people; empty: nobody has judged it yet
    good: bool | None  # None: nobody has judged it yet
    reason: str
    message: str
    since: datetime
    purse: Purse | None = None  # None: it never costs anything by itself
    over: bool = False  # it has ended, and stays to tell its story

    @property
    def label(self) -> str:
        return label(self.kind, self.name)


@dataclass(frozen=True, slots=True)
class Machine:
    """One Node."""

    name: str
    ready: bool
    gpus: int
    gpus_used: int
    pods: int
    note: str = ""  # what sort of machine it is, in a word or two


@dataclass(frozen=True, slots=True)
class Happening:
    """One Event, or one fact."""

    at: datetime
    warning: bool
    about: str
    reason: str
    message: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Story:
    """One thing that a world's script did, in a sentence."""

    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class Ware:
    """The cheapest GPU-hour of one model."""

    gpu: str
    microusd: int
    provider: str
    spot: bool
    way: int  # since an hour ago: 1 dearer, -1 cheaper, 0 the same


@dataclass(frozen=True, slots=True)
class Stall:
    """The market at a glance."""

    offers: int = 0
    sources: int = 0
    wares: tuple[Ware, ...] = ()  # the cheapest first


@dataclass(frozen=True, slots=True)
class Scene:
    title: str
    now: datetime
    pace: str  # how this world's time runs, in words; empty: as everybody's
    url: str
    look: str  # the command to look from another terminal
    operator: Mapping[str, str]  # short facts about the process, in order
    things: tuple[Thing, ...]  # the unhappy first
    machines: tuple[Machine, ...]
    pods: Mapping[str, int]  # how many in which state, in words
    happenings: tuple[Happening, ...]  # newest last
    hint: str  # one suggested next command
    stall: Stall = field(default=Stall())
    troubles: tuple[str, ...] = field(default=())  # what cannot be shown, and why
    things_known: bool = True  # False: none of our kinds could be read, so that nothing is known rather than there
    machines_known: bool = True
    rented: int = 0  # machines that cost something, or may
    hourly_microusd: int = 0  # all of them together
    stories: tuple[Story, ...] = ()  # newest last; none: no script plays here
    held: str = ""  # why every purchase is stopped; empty: it is not

    @property
    def unhappy(self) -> int:
        return sum(thing.good is False for thing in self.things)


def label(kind: str, name: str) -> str:
    """An object in two words: `pool ml/training`."""
    return f"{KINDS.get(kind, kind.lower())} {name}"


def age(length: timedelta) -> str:
    """As kubectl says it: two units at most."""
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


def dollars(microusd: int) -> str:
    """To the cent; less than one is not nothing."""
    return "<$0.01" if 0 < microusd < 5_000 else f"${microusd / 1_000_000:,.2f}"


def plain(text: str) -> str:
    """Foreign text on one line, without anything that could move a cursor: names and messages come from a cluster."""
    return "".join(character if character.isprintable() else " " for character in " ".join(text.split()))
