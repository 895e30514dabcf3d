"""The faults of providers; each can be aimed at the next calls of a verb, or drawn by seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random


class CloudVerb(StrEnum):
    OFFERS = "offers"
    LAUNCH = "launch"
    LIST = "list"
    STATUS = "status"
    TERMINATE = "terminate"
    ACCOUNT = "account"
    OTHER = "other"


LOOKS = frozenset({CloudVerb.OFFERS, CloudVerb.LIST, CloudVerb.STATUS, CloudVerb.ACCOUNT, CloudVerb.OTHER})
LISTS = frozenset({CloudVerb.LIST})
ANYTHING = frozenset(CloudVerb)
LAUNCH = frozenset({CloudVerb.LAUNCH})
TERMINATE = frozenset({CloudVerb.TERMINATE})


class CloudFault(StrEnum):
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
    SOLD_TWICE = "sold-twice"  # accepted, though another tenant has it: dies on the host a little later
    MADE_TWICE = "made-twice"  # two machines for one order
    OVERBILLED = "overbilled"  # billed above the quoted price
    # The life of what was bought.
    STUCK = "stuck"  # never leaves its first state
    NO_ADDRESS = "no-address"  # runs, without ports or addresses
    OUTBID = "outbid"  # stopped by itself, the disk still costs
    OFFLINE = "offline"  # its host is gone, it is listed on
    PREEMPTED = "preempted"  # taken back and gone
    VANISHED = "vanished"  # not listed any more, without a notice
    # Termination.
    DELETE_UNKNOWN = "delete-unknown"  # 404, though it is there
    DELETE_IGNORED = "delete-ignored"  # accepted, and it stays
    # Accounts.
    KEY_REVOKED = "key-revoked"
    BROKE = "broke"  # the balance is exhausted, or the quota
    OTHER_ACCOUNT = "other-account"  # the key belongs to another account from now on


WHERE: Mapping[CloudFault, frozenset[CloudVerb]] = {
    CloudFault.HANG_UP: ANYTHING,
    CloudFault.ERROR: ANYTHING,
    CloudFault.BUSY: ANYTHING,
    CloudFault.BUSY_TEXT: ANYTHING,
    CloudFault.HTML: ANYTHING,
    CloudFault.EMPTY_BODY: ANYTHING,
    CloudFault.GARBAGE: LOOKS,
    CloudFault.LIST_GONE: LISTS,
    CloudFault.LIST_NOTHING: LISTS,
    CloudFault.LIST_PARTIAL: LISTS,
    CloudFault.LIST_LAGS: LAUNCH,
    CloudFault.HANG_UP_AFTER: LAUNCH | TERMINATE,
    CloudFault.ERROR_AFTER: LAUNCH | TERMINATE,
    CloudFault.ERROR_WITH_ID: LAUNCH,
    CloudFault.SOLD_OUT: LAUNCH,
    CloudFault.SOLD_TWICE: LAUNCH,
    CloudFault.MADE_TWICE: LAUNCH,
    CloudFault.OVERBILLED: LAUNCH,
    CloudFault.STUCK: LAUNCH,
    CloudFault.NO_ADDRESS: LAUNCH,
    CloudFault.OUTBID: LAUNCH,
    CloudFault.OFFLINE: LAUNCH,
    CloudFault.PREEMPTED: LAUNCH,
    CloudFault.VANISHED: LAUNCH,
    CloudFault.DELETE_UNKNOWN: TERMINATE,
    CloudFault.DELETE_IGNORED: TERMINATE,
    CloudFault.KEY_REVOKED: ANYTHING,
    CloudFault.BROKE: LAUNCH,
    CloudFault.OTHER_ACCOUNT: ANYTHING,
}


@dataclass(frozen=True, slots=True)
class Aimed:
    fault: CloudFault
    verb: CloudVerb | None  # None: any it can befall


@dataclass(slots=True)
class CloudFaults:
    """The faults of the next calls. Aimed ones first, in their order; then random ones."""

    luck: Random
    chances: dict[CloudFault, float] = field(default_factory=dict)  # per call that it can befall
    of_orders: dict[CloudFault, float] = field(
        default_factory=dict
    )  # what stands instead of that for orders, for a while
    aimed: list[Aimed] = field(default_factory=list)
    seen: dict[CloudFault, int] = field(default_factory=dict)  # how often each happened

    def aim(self, cloud_fault: CloudFault, verb: CloudVerb | None = None, times: int = 1) -> None:
        assert verb is None or verb in WHERE[cloud_fault], f"{cloud_fault} does not befall {verb}"
        self.aimed.extend([Aimed(cloud_fault, verb)] * times)

    def calm(self) -> None:
        self.aimed.clear()
        self.chances.clear()
        self.of_orders.clear()

    def draw(self, verb: CloudVerb) -> CloudFault | None:
        """The fault of this call, if any; an aimed one is used up by it."""
        found = self._aimed_at(verb) or self._by_luck(verb)
        if found is not None:
            self.seen[found] = self.seen.get(found, 0) + 1
        return found

    def _aimed_at(self, verb: CloudVerb) -> CloudFault | None:
        for place, aimed in enumerate(self.aimed):
            if aimed.verb is verb or (aimed.verb is None and verb in WHERE[aimed.fault]):
                del self.aimed[place]
                return aimed.fault
        return None

    def _by_luck(self, verb: CloudVerb) -> CloudFault | None:
        chances = {**self.chances, **self.of_orders} if self.of_orders and verb is CloudVerb.LAUNCH else self.chances
        for cloud_fault in CloudFault:
            chance = chances.get(cloud_fault, 0.0)
            if chance and verb in WHERE[cloud_fault] and self.luck.random() < chance:
                return cloud_fault
        return None
