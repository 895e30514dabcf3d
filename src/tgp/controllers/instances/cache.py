"""The machines that the providers listed last, for every decision about a machine.

The poller lists each account and puts the list here; every reconcile of a request reads it. So a provider is asked
once for all requests, and "absent" means the same thing everywhere: complete lists, of the same account, begun
after the machine could have been seen, counted on this process's own clock.

What is shown is there, whatever else is wrong with a list; only what is *not* shown needs all that evidence.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

import msgspec

from tgp.core.inventory.orphans import newest_kept_first
from tgp.core.model.instance import Instance
from tgp.core.model.presence import Absent, AccountProblem, Found, Presence, Unknown
from tgp.core.model.token import read_token

FORGOTTEN_AFTER = 3600.0  # seconds without a question about a token
MOST_REMEMBERED = 65_536  # requests whose highest attempt is known; the least recently seen are forgotten first


class InstanceSnapshot(msgspec.Struct, frozen=True):
    """One list of one account: its machines of this cluster."""

    account: str  # under which identity
    began: float  # Clock.boottime, before the first byte was sent
    instances: tuple[Instance, ...]
    absent: frozenset[str] = frozenset()  # tokens that were asked for one by one, and do not exist
    doubts: Mapping[str, str] = msgspec.field(default_factory=dict)  # token → why the state of this one is unknown
    gap: str = ""  # why a machine that is not listed may exist all the same; empty: the list was complete
    lied: bool = False  # the list contradicts what the provider says of single machines

    @property
    def complete(self) -> bool:
        return not self.gap

    def doubt(self, token: str) -> str:
        """Why a token that is not listed may exist all the same; empty: it does not exist."""
        return self.doubts.get(token) or ("" if token in self.absent else self.gap)


@dataclass(slots=True)
class _Watched:
    """A token whose presence is tracked."""

    access: str
    account: tuple[str, ...]  # the identities of the account it was ordered in; none: any
    since: float  # only lists begun after this count
    first_absent: float = -1.0
    last_absent: float = -1.0
    absent: int = 0
    asked_at: float = 0.0
    seen_as: str = ""  # the id it was last shown under; empty: never, by this process
    named_as: str = ""  # the id that the answer to its order named; empty: none
    seen_under: str = ""  # the account it was last shown in: an identity may be only a key, and keys are rotated


@dataclass(slots=True)
class _Account:
    snapshot: InstanceSnapshot | None = None
    trouble: AccountProblem | None = AccountProblem.NOT_ASKED_YET
    why: str = "Provider has not been asked yet"
    by_token: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)
    by_uid: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)  # of the requests that tokens name


class InstanceCache:
    def __init__(self, boottime: Callable[[], float], ask_soon: Callable[[str], None] = lambda _access: None) -> None:
        self._boottime = boottime
        self.ask_soon = ask_soon  # triggers the next list of an account
        self._accounts: dict[str, _Account] = {}
        self._watched: dict[str, _Watched] = {}
        self._news: dict[str, frozenset[str] | None] = {}  # by account access, the answer of `news`
        self._highest: dict[str, int] = {}  # by request uid (32 digits): the highest attempt seen anywhere

    # -- questions ----------------------------------------------------------------------------------------------------

    def watch(self, token: str, access: str, account: tuple[str, ...], *, not_before: float | None = None) -> None:
        """Count absences of this token in lists of `access` begun from now on (or from `not_before` on)."""
        now = self._boottime()
        held = self._watched.get(token)
        if held is None or not_before is not None:
            since = now if not_before is None else not_before
            renewed = _Watched(access, account, since, asked_at=now)
            if held is not None:
                renewed.seen_as, renewed.seen_under, renewed.named_as = held.seen_as, held.seen_under, held.named_as
            self._watched[token] = renewed
        else:
            held.asked_at, held.account = now, account

    def note_id(self, token: str, instance_id: str) -> None:
        """The answer to its order named this machine: the poller asks for it by id, recorded or not."""
        if (watched := self._watched.get(token)) is not None:
            watched.named_as = instance_id

    def forget(self, token: str) -> None:
        self._watched.pop(token, None)

    def presence(self, token: str, access: str, account: tuple[str, ...], *, instance_id: str = "") -> Presence:
        """What is known of a token. Its absences count once it is watched.

        Of two machines under it the recorded one, `instance_id`, is the one that was found.
        """
        watched = self._watched.get(token) or _Watched(access, account, self._boottime())
        known = self._accounts.get(access) or _Account()
        if known.trouble is not None:
            return Unknown(known.trouble, known.why)
        snapshot = known.snapshot
        assert snapshot is not None, "an account without a problem was listed"
        found = sorted(known.by_token.get(token, ()), key=lambda one: one.id != instance_id)  # stable
        if found:  # also under another identity: no other account can show our token
            return Found(found[0], tuple(found[1:]))
        if account and snapshot.account not in (*account, watched.seen_under):
            return Unknown(
                AccountProblem.ACCOUNT_CHANGED,
                f"API key now belongs to account {snapshot.account}; the machine was launched in account {account[-1]}",
            )
        if why := snapshot.doubt(token):
            return Unknown(AccountProblem.UNREACHABLE, why)
        span = max(0.0, watched.last_absent - watched.first_absent)
        return Absent(watched.absent, timedelta(seconds=span))

    def trouble(self, access: str) -> Unknown | None:
        """Why the state of an account is unknown and nothing should be bought there; None: it was listed."""
        known = self._accounts.get(access) or _Account()
        if known.trouble is not None:
            return Unknown(known.trouble, known.why)
        snapshot = known.snapshot
        return Unknown(AccountProblem.UNREACHABLE, snapshot.gap) if snapshot is not None and snapshot.lied else None

    def account(self, access: str) -> str:
        """Under which identity the machines were last listed; empty: never."""
        known = self._accounts.get(access)
        return known.snapshot.account if known is not None and known.snapshot is not None else ""

    def highest_attempt(self, uid: str) -> int:
        """Of a request, by its uid as in tokens: 0 if this process never saw a machine of it."""
        return self._highest.get(uid, 0)

    def of_request(self, uid: str) -> list[tuple[str, Instance]]:
        """(account access, machine) of every machine listed now whose token names this request."""
        return [
            (access, instance) for access, known in self._accounts.items() for instance in known.by_uid.get(uid, ())
        ]

    def news(self, access: str) -> frozenset[str] | None:
        """Requests (by uid, as in tokens) with changes in the last list; None: it may concern all requests."""
        return self._news.get(access)

    def listed_since(self, access: str, moment: float) -> bool:
        """Was a complete list begun after this moment (Clock.boottime)?"""
        listed_at = self.listed_at(access)
        return listed_at is not None and listed_at > moment

    def listed_at(self, access: str) -> float | None:
        """When the last list was begun (Clock.boottime), if it was complete; None: it was not, or listing fails now."""
        known = self._accounts.get(access)
        if known is None or known.trouble is not None or known.snapshot is None:
            return None
        return known.snapshot.began if known.snapshot.complete else None

    # -- updates by the poller ----------------------------------------------------------------------------------------

    def put(self, access: str, snapshot: InstanceSnapshot) -> bool:
        """A list is complete. Does it change anything for requests?"""
        before = self._accounts.get(access)
        by_token: dict[str, tuple[Instance, ...]] = {}
        by_uid: dict[str, tuple[Instance, ...]] = {}
        for instance in sorted(snapshot.instances, key=newest_kept_first):
            by_token[instance.token] = (*by_token.get(instance.token, ()), instance)
        for text, instances in by_token.items():
            if (token := read_token(text)) is not None:
                by_uid[token.uid] = (*by_uid.get(token.uid, ()), *instances)
                self._remember(token.uid, token.attempt)
        self._accounts[access] = _Account(snapshot, None, "", by_token, by_uid)
        counted = self._counted(access, snapshot, by_token)
        if before is None or _differs(before, snapshot):
            self._news[access] = None
            return True
        shown = before.by_token
        changed = {token for token in {*shown, *by_token} if shown.get(token) != by_token.get(token)}
        uids = (read.uid for token in changed | counted if (read := read_token(token)) is not None)
        self._news[access] = frozenset(uids)
        return bool(changed or counted)

    def add_news(self, access: str, tokens: Iterable[str]) -> None:
        """The last list matters to the requests of these machines, too."""
        told = self._news.get(access)
        if told is not None:
            self._news[access] = told | {read.uid for token in tokens if (read := read_token(token)) is not None}

    def fail(self, access: str, trouble: AccountProblem, why: str) -> bool:
        """The account could not be listed. Counted absences stay: they need not be consecutive.

        Returns whether that is a change.
        """
        self._news[access] = None
        known = self._accounts.setdefault(access, _Account())
        self._accounts[access] = replace(known, trouble=trouble, why=why)
        return (known.trouble, known.why) != (trouble, why)

    def drop(self, access: str) -> None:
        """The access is not in use any more."""
        self._accounts.pop(access, None)
        self._news.pop(access, None)

    def accesses(self) -> Iterable[str]:
        return tuple(self._accounts)

    def snapshot(self, access: str) -> InstanceSnapshot | None:
        """The last complete list, whatever failed since; None: there was none."""
        known = self._accounts.get(access)
        return known.snapshot if known is not None else None

    def expected(self, access: str) -> list[str]:
        """Tokens whose presence is tracked there."""
        return [token for token, watched in self._watched.items() if watched.access == access]

    def seen_as(self, token: str) -> str:
        """The id a watched token was last shown under; empty: never."""
        watched = self._watched.get(token)
        return watched.seen_as if watched is not None else ""

    def known_as(self, token: str) -> str:
        """The id it was last shown under, else the one that its order was answered with; empty: neither."""
        watched = self._watched.get(token)
        return (watched.seen_as or watched.named_as) if watched is not None else ""

    def watched_for(self, token: str) -> float:
        """Seconds since its absences count; 0: not tracked."""
        watched = self._watched.get(token)
        return max(0.0, self._boottime() - watched.since) if watched is not None else 0.0

    def _counted(
        self, access: str, snapshot: InstanceSnapshot, by_token: Mapping[str, tuple[Instance, ...]]
    ) -> set[str]:
        """Tokens whose absence counted for one more."""
        now, counted = self._boottime(), set()
        for token, watched in list(self._watched.items()):
            if watched.access != access:
                continue
            if _count(token, watched, snapshot, by_token.get(token, ())):
                counted.add(token)
            if now - watched.asked_at > FORGOTTEN_AFTER:
                del self._watched[token]
        return counted

    def _remember(self, uid: str, attempt: int) -> None:
        self._highest[uid] = max(self._highest.pop(uid, 0), attempt)
        if len(self._highest) > MOST_REMEMBERED:
            del self._highest[next(iter(self._highest))]


def _count(token: str, watched: _Watched, snapshot: InstanceSnapshot, shown: tuple[Instance, ...]) -> bool:
    if shown:
        watched.seen_as, watched.seen_under = shown[0].id, snapshot.account
    if shown or (watched.account and snapshot.account not in (*watched.account, watched.seen_under)):
        watched.first_absent, watched.last_absent, watched.absent = -1.0, -1.0, 0
    elif snapshot.began > watched.since and not snapshot.doubt(token):
        watched.first_absent = snapshot.began if not watched.absent else watched.first_absent
        watched.last_absent = snapshot.began
        watched.absent += 1
        return True
    return False


def _differs(before: _Account, snapshot: InstanceSnapshot) -> bool:
    """Whether the list differs from the previous one in more than its machines."""
    seen = before.snapshot
    if before.trouble is not None or seen is None:
        return True
    return (seen.account, seen.doubts, seen.gap, seen.lied) != (
        snapshot.account,
        snapshot.doubts,
        snapshot.gap,
        snapshot.lied,
    )
