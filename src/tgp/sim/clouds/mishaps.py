"""The menu of what goes wrong at providers; each can be aimed at the next calls of a verb, or drawn by seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random


class Verb(StrEnum):
    OFFERS = "offers"
    LAUNCH = "launch"
    LIST = "list"
    STATUS = "status"
    TERMINATE = "terminate"
    ACCOUNT = "account"
    OTHER = "other"


LOOKS = frozenset({Verb.OFFERS, Verb.LIST, Verb.STATUS, Verb.ACCOUNT, Verb.OTHER})
LISTS = frozenset({Verb.LIST})
ANYTHING = frozenset(Verb)
LAUNCH = frozenset({Verb.LAUNCH})
TERMINATE = frozenset({Verb.TERMINATE})


class Mishap(StrEnum):
    # Answers, whatever was asked.
    HANG_UP = "hang-up"  # the connection is dropped before anything happened
    ERROR = "error"  # 5xx before anything happened
    BUSY = "busy"  # 429 with Retry-After, in the provider's envelope
    BUSY_TEXT = "busy-text"  # 429 without Retry-After, as plain text
    HTML = "html"  # 200 and a page of a proxy
    EMPTY_BODY = "empty-body"  # 200 and nothing
    GARBAGE = "garbage"  # 200 and JSON of another shape
    # Lists.
    LIST_GONE = "list-gone"  # 410: the endpoint was retired
    LIST_NOTHING = "list-nothing"  # 200, well-formed, empty, though machines are there
    LIST_PARTIAL = "list-partial"  # the second page fails
    LIST_LAGS = "list-lags"  # what is launched now is invisible for long
    # Buying.
    HANG_UP_AFTER = "hang-up-after"  # it was made; the connection drops
    ERROR_AFTER = "error-after"  # it was made; 5xx
    ERROR_WITH_ID = "error-with-id"  # an error that names the machine it made
    SOLD_OUT = "sold-out"  # sold between search and buy
    SOLD_TWICE = "sold-twice"  # accepted, though somebody else has it: dies on the host a little later
    MADE_TWICE = "made-twice"  # two machines for one order
    DEARER = "dearer"  # billed above the quoted price
    # The life of what was bought.
    STUCK = "stuck"  # never leaves its first state
    NO_ADDRESS = "no-address"  # runs, without ports or addresses
    OUTBID = "outbid"  # stopped by itself, the disk still costs
    OFFLINE = "offline"  # its host is gone, it is listed on
    PREEMPTED = "preempted"  # taken back and gone
    VANISHED = "vanished"  # not listed any more, nobody was told
    # Giving back.
    DELETE_UNKNOWN = "delete-unknown"  # 404, though it is there
    DELETE_IGNORED = "delete-ignored"  # accepted, and it stays
    # Accounts.
    KEY_REVOKED = "key-revoked"
    BROKE = "broke"  # the balance is exhausted, or the quota
    OTHER_ACCOUNT = "other-account"  # the key belongs to another account from now on


WHERE: Mapping[Mishap, frozenset[Verb]] = {
    Mishap.HANG_UP: ANYTHING,
    Mishap.ERROR: ANYTHING,
    Mishap.BUSY: ANYTHING,
    Mishap.BUSY_TEXT: ANYTHING,
    Mishap.HTML: ANYTHING,
    Mishap.EMPTY_BODY: ANYTHING,
    Mishap.GARBAGE: LOOKS,
    Mishap.LIST_GONE: LISTS,
    Mishap.LIST_NOTHING: LISTS,
    Mishap.LIST_PARTIAL: LISTS,
    Mishap.LIST_LAGS: LAUNCH,
    Mishap.HANG_UP_AFTER: LAUNCH | TERMINATE,
    Mishap.ERROR_AFTER: LAUNCH | TERMINATE,
    Mishap.ERROR_WITH_ID: LAUNCH,
    Mishap.SOLD_OUT: LAUNCH,
    Mishap.SOLD_TWICE: LAUNCH,
    Mishap.MADE_TWICE: LAUNCH,
    Mishap.DEARER: LAUNCH,
    Mishap.STUCK: LAUNCH,
    Mishap.NO_ADDRESS: LAUNCH,
    Mishap.OUTBID: LAUNCH,
    Mishap.OFFLINE: LAUNCH,
    Mishap.PREEMPTED: LAUNCH,
    Mishap.VANISHED: LAUNCH,
    Mishap.DELETE_UNKNOWN: TERMINATE,
    Mishap.DELETE_IGNORED: TERMINATE,
    Mishap.KEY_REVOKED: ANYTHING,
    Mishap.BROKE: LAUNCH,
    Mishap.OTHER_ACCOUNT: ANYTHING,
}


@dataclass(frozen=True, slots=True)
class Aimed:
    mishap: Mishap
    verb: Verb | None  # None: any it can befall


@dataclass(slots=True)
class Mishaps:
    """What befalls the next calls. Aimed ones first, in their order; then by luck."""

    luck: Random
    chances: dict[Mishap, float] = field(default_factory=dict)  # per call that it can befall
    of_orders: dict[Mishap, float] = field(default_factory=dict)  # what stands instead of that for orders, for a while
    aimed: list[Aimed] = field(default_factory=list)
    seen: dict[Mishap, int] = field(default_factory=dict)  # how often each happened

    def aim(self, mishap: Mishap, verb: Verb | None = None, times: int = 1) -> None:
        assert verb is None or verb in WHERE[mishap], f"{mishap} does not befall {verb}"
        self.aimed.extend([Aimed(mishap, verb)] * times)

    def calm(self) -> None:
        self.aimed.clear()
        self.chances.clear()
        self.of_orders.clear()

    def draw(self, verb: Verb) -> Mishap | None:
        """What befalls this call, if anything; an aimed one is used up by it."""
        found = self._aimed_at(verb) or self._by_luck(verb)
        if found is not None:
            self.seen[found] = self.seen.get(found, 0) + 1
        return found

    def _aimed_at(self, verb: Verb) -> Mishap | None:
        for place, aimed in enumerate(self.aimed):
            if aimed.verb is verb or (aimed.verb is None and verb in WHERE[aimed.mishap]):
                del self.aimed[place]
                return aimed.mishap
        return None

    def _by_luck(self, verb: Verb) -> Mishap | None:
        chances = {**self.chances, **self.of_orders} if self.of_orders and verb is Verb.LAUNCH else self.chances
        for mishap in Mishap:
            chance = chances.get(mishap, 0.0)
            if chance and verb in WHERE[mishap] and self.luck.random() < chance:
                return mishap
        return None
