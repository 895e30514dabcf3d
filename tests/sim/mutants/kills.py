"""Which history kills which mutant, with which seed; found by trying, kept so that nobody has to search again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kill:
    history: str
    promise: str  # how the first accusation begins: an invariant, or words of the history itself
    seed: str = "1"


KILLS: dict[str, Kill] = {
    "account-from-status": Kill("hostile-tenant", "a status was believed"),
    "accounts-forgotten": Kill("provider-taken-out", "a machine stayed at a provider that no class names"),
    "adopts-by-name": Kill("somebody-elses-node", "I16"),
    "any-key-is-the-same": Kill("another-accounts-key", "a machine was given up that another account does not list"),
    "approved-without-a-mark": Kill("token-read-by-its-host", "J3"),
    "attempts-without-end": Kill("never-an-answer", "I7"),
    "book-forgotten": Kill("silent-tailnet", "J4"),
    "book-written-late": Kill("joins-a-tailnet", "J6"),
    "collector-without-doubt": Kill("everybody-stripped", "the collector ended everything"),
    "container-bought": Kill("containers-on-sale", "a container was reserved to boot Talos"),
    "deleted-lease-taken-at-once": Kill("lease-deleted", "I19"),
    "device-by-name": Kill("namesake", "somebody else's device was removed"),
    "empty-list-believed": Kill("nothing-listed", "I9"),
    "empty-view-believed": Kill("no-request-shown", "I9"),
    "end-believed-at-once": Kill("whole-life", "I9"),
    "finalizer-early": Kill("whole-life", "I13"),
    "halt-ends-on-one-look": Kill("everybody-stripped", "the collector ended everything"),
    "halt-for-ever": Kill("restored-to-before", "machines that belong to no request are paid for ever"),
    "hold-ignored": Kill("held", "I28"),
    "id-from-status": Kill("hostile-tenant", "a machine of others was touched"),
    "id-lost-in-a-conflict": Kill("written-while-it-is-ordered", "I9"),
    "identity-ignored": Kill("another-account", "I9"),
    "last-look-before-the-queue": Kill("stopped-in-line", "I28"),
    "limit-outside-the-ledger": Kill("at-once", "I3"),
    "new-key-is-a-stranger": Kill("key-rotated", "not within"),
    "no-collector": Kill("made-twice", "I1"),
    "no-compare-and-swap": Kill("whole-life", "I14"),
    "no-fence": Kill("paused-at-the-end", "I19"),
    "no-finalizer": Kill("whole-life", "I13"),
    "no-last-look": Kill("stopped-unheard", "I28"),
    "old-view-trusted": Kill("at-once-seen-late", "I3"),
    "older-attempt-kept": Kill("declared-over", "I2"),
    "one-list-is-enough": Kill("cut-off-while-it-orders", "I1"),
    "order-from-status": Kill("hostile-tenant", "a machine was ordered by what a status says"),
    "orders-again-at-once": Kill("lost-answer", "I6", "3"),
    "orders-for-another-epoch": Kill("crash-while-it-is-ordered", "I6"),
    "orders-for-the-deleted": Kill("deleted-before-the-order", "a machine was rented for a request that was being"),
    "price-ignored": Kill("too-dear", "I4"),
    "ready-without-the-mesh": Kill("wrong-address", "J5"),
    "reserves-at-the-listed-price": Kill("dearer-when-ordered", "the class costs"),
    "restored-copy-buys": Kill("restored", "I13"),
    "rewind-unnoticed": Kill("rewound", "I2"),
    "rewound-buys-again": Kill("rewound-to-a-reservation", "I6"),
    "settle-on-the-stored-clock": Kill("crash-after-a-late-order", "I9"),
    "shared-with-everybody": Kill("a-marketplaces-host", "J7"),
    "short-settle": Kill("cut-off-while-it-orders", "I9"),
    "stopped-is-gone": Kill("outbid", "I9"),
    "strays-halt-the-sweep": Kill("declared-over", "I2"),
    "token-kept-after-the-join": Kill("joins-a-tailnet", "J2"),
    "token-made-anew": Kill("lost-answer-to-a-token", "J1"),
    "unknown-is-refusal": Kill("lost-answer", "I9"),
    "unlisted-is-gone": Kill("listed-very-late", "a second machine was rented while"),
    "user-tag-wins": Kill("tagged-like-ours", "I6"),
    "wall-clock-trusted": Kill("another-day", "I20"),
    "wiped-machine-disowned": Kill("four-wiped", "a machine was ended or bought for a wipe"),
    "wiped-status-buys": Kill("wiped-while-it-is-ordered", "I1"),
}
