"""What the providers were last seen to hold, for everybody who decides about a machine.

One keeper (the rounds) lists each till and puts the list here; every turn about a request reads it. So a provider is
asked once for all requests, and "absent" means the same thing everywhere: complete lists, of the same account, begun
after the machine could have been seen, counted on this process's own clock.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tgp.core.model.instance import Instance
from tgp.core.model.presence import Absent, Found, Presence, Trouble, Unknown
from tgp.core.model.token import read_token

FORGOTTEN_AFTER = 3600.0  # seconds: nobody asked for a token for so long


@dataclass(frozen=True, slots=True)
class Roster:
    """One complete list of one till: what it holds of this cluster."""

    account: str  # under which identity
    began: float  # Clock.boottime, before the first byte was sent
    instances: tuple[Instance, ...]


@dataclass(slots=True)
class _Watched:
    """A token that somebody wants to know about."""

    till: str
    account: str  # the identity it was ordered under; empty: any
    since: float  # only lists begun after this count
    first_absent: float = -1.0
    last_absent: float = -1.0
    absent: int = 0
    asked_at: float = 0.0


@dataclass(slots=True)
class _Account:
    roster: Roster | None = None
    trouble: Trouble | None = Trouble.NOT_ASKED_YET
    why: str = "this provider has not been asked yet"
    by_token: Mapping[str, tuple[Instance, ...]] = field(default_factory=dict)


class Rosters:
    def __init__(self, boottime: Callable[[], float], ask_soon: Callable[[str], None] = lambda _till: None) -> None:
        self._boottime = boottime
        self.ask_soon = ask_soon  # wakes the rounds of a till
        self._accounts: dict[str, _Account] = {}
        self._watched: dict[str, _Watched] = {}
        self._highest: dict[str, int] = {}  # by request uid (32 digits): the highest attempt seen anywhere

    # -- for whoever decides ---------------------------------------------------------------------------------------------

    def watch(self, token: str, till: str, account: str, *, not_before: float | None = None) -> None:
        """Count absences of this token in lists of `till` begun from now on (or from `not_before` on)."""
        now = self._boottime()
        held = self._watched.get(token)
        if held is None or not_before is not None:
            since = now if not_before is None else not_before
            self._watched[token] = _Watched(till, account, since, asked_at=now)
        else:
            held.asked_at = now

    def forget(self, token: str) -> None:
        self._watched.pop(token, None)

    def presence(self, token: str, till: str, account: str) -> Presence:
        """What is known of a token; from the first question on its absences are counted."""
        self.watch(token, till, account)
        known = self._accounts.get(till) or _Account()
        if known.trouble is not None:
            return Unknown(known.trouble, known.why)
        assert known.roster is not None, "a till without trouble was listed"
        if account and known.roster.account != account:
            return Unknown(
                Trouble.ACCOUNT_CHANGED,
                f"the key belongs to account {known.roster.account} now; the machine was rented in account {account}",
            )
        found = known.by_token.get(token)
        if found:
            return Found(found[0], found[1:])
        watched = self._watched[token]
        span = max(0.0, watched.last_absent - watched.first_absent)
        return Absent(watched.absent, timedelta(seconds=span))

    def trouble(self, till: str) -> Unknown | None:
        """Why nothing can be said about a till now; None: it was listed."""
        known = self._accounts.get(till) or _Account()
        return Unknown(known.trouble, known.why) if known.trouble is not None else None

    def account(self, till: str) -> str:
        """Under which identity a till was last listed; empty: it was not."""
        known = self._accounts.get(till)
        return known.roster.account if known is not None and known.roster is not None else ""

    def highest_attempt(self, uid: str) -> int:
        """Of a request, by its uid as it stands in tokens: 0 if no machine of it was ever seen by this process."""
        return self._highest.get(uid, 0)

    def of_request(self, uid: str) -> list[tuple[str, Instance]]:
        """(till, machine) of every machine listed now whose token names this request."""
        return [
            (till, instance)
            for till, known in self._accounts.items()
            for token, instances in known.by_token.items()
            for instance in instances
            if (read := read_token(token)) is not None and read.uid == uid
        ]

    def listed_since(self, till: str, moment: float) -> bool:
        """Was a complete list begun after this moment (Clock.boottime)?"""
        known = self._accounts.get(till)
        return known is not None and known.trouble is None and known.roster is not None and known.roster.began > moment

    # -- for the rounds -------------------------------------------------------------------------------------------------

    def put(self, till: str, roster: Roster) -> None:
        """A complete list has come."""
        by_token: dict[str, tuple[Instance, ...]] = {}
        for instance in sorted(roster.instances, key=_keepers_first):
            by_token[instance.token] = (*by_token.get(instance.token, ()), instance)
            if (token := read_token(instance.token)) is not None:
                self._highest[token.uid] = max(self._highest.get(token.uid, 0), token.attempt)
        self._accounts[till] = _Account(roster, None, "", by_token)
        now = self._boottime()
        for token_text, watched in list(self._watched.items()):
            if watched.till == till:
                self._count(token_text, watched, roster, present=token_text in by_token)
                if now - watched.asked_at > FORGOTTEN_AFTER:
                    del self._watched[token_text]

    def fail(self, till: str, trouble: Trouble, why: str) -> None:
        """It could not be listed. What was counted stays: absences need not be seen without a pause."""
        known = self._accounts.setdefault(till, _Account())
        self._accounts[till] = replace(known, trouble=trouble, why=why)

    def drop(self, till: str) -> None:
        """Nobody needs it any more."""
        self._accounts.pop(till, None)

    def tills(self) -> Iterable[str]:
        return tuple(self._accounts)

    def expected(self, till: str) -> list[str]:
        """Tokens that somebody wants to know about there."""
        return [token for token, watched in self._watched.items() if watched.till == till]

    def _count(self, token: str, watched: _Watched, roster: Roster, *, present: bool) -> None:
        if present or (watched.account and roster.account != watched.account):
            self._watched[token] = replace(watched, first_absent=-1.0, last_absent=-1.0, absent=0)
        elif roster.began > watched.since:
            watched.first_absent = roster.began if not watched.absent else watched.first_absent
            watched.last_absent = roster.began
            watched.absent += 1


def _keepers_first(instance: Instance) -> tuple[str, str, str]:
    """Of two machines under one token the older is kept: it is the one that was recorded, if any was."""
    created = instance.created_at.isoformat() if instance.created_at is not None else "~"
    return instance.token, created, instance.id
