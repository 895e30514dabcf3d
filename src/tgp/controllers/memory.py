"""What this process knows of a request beyond its record. All of it may be lost: then it is found out again, slower."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from tgp.api.request import Attempt
from tgp.controllers.wardrobe import Wardrobe

MOST = 20_000  # requests remembered; the longest unseen is forgotten first


@dataclass(slots=True)
class Memory:
    since: float  # Clock.boottime: when this process first looked at the request
    blank: bool = False  # we enrolled it, and nothing was ever ordered
    empty: bool = False  # it was so at the last look, although something was bought or may have been
    wiped: bool = False  # its status was found empty, and it was not we who enrolled it
    reserved: Attempt | None = None  # the attempt that this process wrote last, as it wrote it
    machine_ids: set[str] = field(default_factory=set)  # of machines that the provider named in answer to our orders
    sent: set[str] = field(default_factory=set)  # tokens whose order left, or may have
    told: dict[str, Attempt] = field(default_factory=dict)  # by token: what a provider told, until it is on paper
    refused_for: tuple[object, ...] | None = None  # how things stood when an order could not be made up; None: it could
    busy: int = 0  # times the provider asked for a pause before the order
    order_not_before: datetime | None = None
    asked: int = 0  # times the provider was asked for the end
    ask_again_at: datetime | None = None
    end_accepted: bool = False  # the provider listed the machine and accepted its end
    trouble: str = ""  # what it said the last time
    told_failing: bool = False
    progress: str | None = None  # the provider's own words; None: not looked yet
    told_at: float = 0.0  # when the status was last written
    unsure_of: int | None = None  # a write conditional on this version got no answer
    unsure_since: float = 0.0
    wardrobe: Wardrobe | None = None  # None: it has no machine


class Memories:
    def __init__(self, boottime: Callable[[], float]) -> None:
        self._boottime = boottime
        self._by_uid: dict[str, Memory] = {}

    def of(self, uid: str) -> Memory:
        found = self._by_uid.pop(uid, None) or Memory(self._boottime())
        self._by_uid[uid] = found
        while len(self._by_uid) > MOST:
            del self._by_uid[next(iter(self._by_uid))]
        return found

    def start_over(self) -> None:
        """What is remembered of the records is worthless; which orders left is not."""
        for memory in self._by_uid.values():
            memory.since = self._boottime()
            memory.blank = False
            memory.reserved = None  # whatever stands there as reserved is settled, and never ordered
            memory.unsure_of = None
            memory.wardrobe = None

    def forget(self, uid: str) -> None:
        self._by_uid.pop(uid, None)
