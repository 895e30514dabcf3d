"""Which history kills which mutant, with which seed; found by trying, kept so that nobody has to search again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kill:
    history: str
    promise: str  # how the first accusation begins: an invariant, or words of the history itself
    seed: str = "1"


KILLS: dict[str, Kill] = {
    "adopts-by-name": Kill("somebody-elses-node", "I16"),
    "approved-without-a-mark": Kill("token-read-by-its-host", "J3"),
    "attempts-without-end": Kill("never-an-answer", "I7"),
    "book-forgotten": Kill("silent-tailnet", "J4"),
    "book-written-late": Kill("joins-a-tailnet", "J6"),
    "collector-without-doubt": Kill("everybody-stripped", "the collector ended everything"),
    "container-bought": Kill("containers-on-sale", "a container was reserved to boot Talos"),
    "device-by-name": Kill("namesake", "somebody else's device was removed"),
    "empty-list-believed": Kill("nothing-listed", "I9"),
    "empty-view-believed": Kill("no-request-shown", "I9"),
    "end-believed-at-once": Kill("whole-life", "I9"),
    "finalizer-early": Kill("whole-life", "I13"),
    "hold-ignored": Kill("held", "a machine was rented while every purchase was stopped"),
    "identity-ignored": Kill("another-account", "I9"),
    "limit-outside-the-ledger": Kill("at-once", "I3"),
    "no-collector": Kill("made-twice", "I1"),
    "no-compare-and-swap": Kill("whole-life", "I14"),
    "no-fence": Kill("paused-at-the-order", "I19"),
    "no-finalizer": Kill("whole-life", "I13"),
    "no-last-look": Kill("stopped-unheard", "a machine was rented after it was stopped"),
    "old-view-trusted": Kill("at-once-seen-late", "I3"),
    "older-attempt-kept": Kill("wiped", "I2"),
    "one-list-is-enough": Kill("cut-off-while-it-orders", "I1"),
    "orders-again-at-once": Kill("lost-answer", "I6", "3"),
    "orders-for-another-epoch": Kill("crash-while-it-is-ordered", "I6"),
    "orders-for-the-deleted": Kill("deleted-before-the-order", "a machine was rented for a request that was being"),
    "price-ignored": Kill("too-dear", "I4"),
    "ready-without-the-mesh": Kill("wrong-address", "J5"),
    "restored-copy-buys": Kill("restored", "I13"),
    "settle-on-the-stored-clock": Kill("crash-after-a-late-order", "I9"),
    "shared-with-everybody": Kill("a-marketplaces-host", "J7"),
    "short-settle": Kill("cut-off-while-it-orders", "I9"),
    "stopped-is-gone": Kill("outbid", "I9"),
    "token-kept-after-the-join": Kill("joins-a-tailnet", "J2"),
    "token-made-anew": Kill("lost-answer-to-a-token", "J1"),
    "unknown-is-refusal": Kill("lost-answer", "I9"),
    "user-tag-wins": Kill("tagged-like-ours", "I6"),
    "wall-clock-trusted": Kill("another-day", "I20"),
    "wiped-status-buys": Kill("wiped-while-it-is-ordered", "I1"),
}
