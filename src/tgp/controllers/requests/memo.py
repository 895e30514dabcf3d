"""What this process knows of a request beyond its record. All of it may be lost: then it is found out again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from tgp.api.request import Attempt
from tgp.core.model.attempts import attempts_of
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.unwritten_ids import recalled

MOST = 20_000  # requests remembered; the least recently used is forgotten first


@dataclass(slots=True)
class RequestMemo:
    since: float  # Clock.boottime: when this process first looked at the request
    blank: bool = False  # we wrote the finalizer, and nothing was ever ordered
    erased: bool = False  # its status was empty at the last reconcile, although something may have been bought
    wiped: bool = False  # its status was found empty, and this process did not write the finalizer
    reserved: Attempt | None = None  # the attempt that this process wrote last, as it wrote it
    machine_ids: set[str] = field(default_factory=set)  # that the provider named in answers to our orders
    sent: set[str] = field(default_factory=set)  # tokens whose order was sent, or may have been
    unwritten: dict[str, Attempt] = field(default_factory=dict)  # by token: with an id that no status shows yet
    refused_for: tuple[object, ...] | None = (
        None  # the inputs with which an order could not be prepared; None: it could
    )
    busy: int = 0  # times the provider asked for a pause before the order
    order_not_before: datetime | None = None
    order_queued: bool = False  # until then other orders of its account are sent; False: the provider asked for a pause
    termination_requests: int = 0
    ask_again_at: datetime | None = None
    termination_accepted: bool = False  # the provider listed the machine and accepted its termination
    trouble: str = ""  # the last error of a termination request
    failing_reported: bool = False  # an Event says that termination requests fail
    progress: str | None = None  # the provider's own text; None: not read yet
    written_at: float = 0.0  # Clock.boottime: when the status was last written
    unsure_of: int | None = None  # a write conditional on this version got no answer
    unsure_since: float = 0.0

    def remember(self, observation: RequestObservation) -> None:
        """What this reconcile saw, for the next one."""
        self.since = observation.since
        self.erased = observation.erased
        self.wiped |= observation.erased
        self.progress = observation.progress
        written = attempts_of(observation.record)
        if self.unwritten and written and recalled(written, self.unwritten) is written:
            self.unwritten.clear()  # the status has it, or the attempt is over


class RequestMemos:
    def __init__(self, boottime: Callable[[], float]) -> None:
        self._boottime = boottime
        self._by_uid: dict[str, RequestMemo] = {}
        self._being_created: set[ObjectKey] = set()

    def creating(self, key: ObjectKey) -> None:
        """A pool creates it now, with our finalizer; `created` follows, whatever happens."""
        self._being_created.add(key)

    def created(self, key: ObjectKey, uid: str) -> None:
        """`uid` of the new object; empty: nothing was created, or that is not known."""
        self._being_created.discard(key)
        if uid:
            self.of(plain_uid(uid)).blank = True

    def is_being_created(self, key: ObjectKey) -> bool:
        """Its watch may be faster than the answer that tells that it is new."""
        return key in self._being_created

    def of(self, uid: str) -> RequestMemo:
        found = self._by_uid.pop(uid, None) or RequestMemo(self._boottime())
        self._by_uid[uid] = found
        while len(self._by_uid) > MOST:
            del self._by_uid[next(iter(self._by_uid))]
        return found

    def start_over(self) -> None:
        """What is remembered of the records is invalid; which orders were sent is still true."""
        for memory in self._by_uid.values():
            memory.since = self._boottime()
            memory.blank = False
            memory.reserved = None  # a reservation found in a status is checked, and never ordered
            memory.unsure_of = None

    def forget(self, uid: str) -> None:
        self._by_uid.pop(uid, None)
