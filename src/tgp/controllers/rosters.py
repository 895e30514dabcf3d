"""What the providers were last seen to hold, for everybody who decides about a machine.

One keeper (the rounds) lists each till and puts the list here; every turn about a request reads it. So a provider is
asked once for all requests, and "absent" means the same thing everywhere: complete lists, of the same account, begun
after the machine could have been seen, counted on this process's own clock.

What is shown is there, whatever else is wrong with a list; only what is *not* shown needs all that evidence.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tgp.core.model.instance import Instance
from tgp.core.model.presence import Absent, Found, Presence, Trouble, Unknown
from tgp.core.model.token import read_token
from tgp.core.rules.collector import keepers_first

FORGOTTEN_AFTER = 3600.0  # seconds: nobody asked for a token for so long
MOST_REMEMBERED = 65_536  # requests whose highest attempt is known; the longest unseen are forgotten first


@dataclass(frozen=True, slots=True)
class Roster:
    """One look at one till: what it holds of this cluster."""

    account: str  # under which identity
    began: float  # Clock.boottime, before the first byte was sent
    instances: tuple[Instance, ...]
    absent: frozenset[str] = frozenset()  # tokens that were asked for one by one, and are not there
    doubts: Mapping[str, str] = field(default_factory=dict)  # token → why nobody can tell of this one
    gap: str = ""  # why a token that is not shown may be there all the same; empty: the list was complete
    lied: bool = False  # the gap is a list that contradicts what the provider says of single machines

    @property
    def complete(self) -> bool:
        return not self.gap

    def doubt(self, token: str) -> str:
        """Why nothing follows from this token's not being shown; empty: it is not there."""
        return self.doubts.get(token) or ("" if token in self.absent else self.gap)


@dataclass(slots=True)
class _Watched:
    """A token that somebody wants to know about."""

    till: str
    account: tuple[str, ...]  # the identities of the account it was ordered in; none: any
    since: float  # only lists begun after this count
    first_absent: float = -1.0
    last_absent: float = -1.0
    absent: int = 0
    asked_at: float = 0.0
    seen_as: str = ""  # the id it was last shown under; empty: never, by this process
    told_as: str = ""  # the id that the answer to its order named; empty: none
    seen_under: str = ""  # the account it was last shown in: where a key is the only identity, keys are changed


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
        self._news: dict[str, frozenset[str] | None] = {}  # by till, what `news` gives
        self._highest: dict[str, int] = {}  # by request uid (32 digits): the highest attempt seen anywhere

    # -- for whoever decides ------------------------------------------------------------------------------------------

    def watch(self, token: str, till: str, account: tuple[str, ...], *, not_before: float | None = None) -> None:
        """Count absences of this token in lists of `till` begun from now on (or from `not_before` on)."""
        now = self._boottime()
        held = self._watched.get(token)
        if held is None or not_before is not None:
            since = now if not_before is None else not_before
            anew = _Watched(till, account, since, asked_at=now)
            if held is not None:
                anew.seen_as, anew.seen_under, anew.told_as = held.seen_as, held.seen_under, held.told_as
            self._watched[token] = anew
        else:
            held.asked_at, held.account = now, account

    def told(self, token: str, instance_id: str) -> None:
        """The answer to its order named this machine: the rounds ask for it by id, whether or not that is on paper."""
        if (watched := self._watched.get(token)) is not None:
            watched.told_as = instance_id

    def forget(self, token: str) -> None:
        self._watched.pop(token, None)

    def presence(self, token: str, till: str, account: tuple[str, ...], *, instance_id: str = "") -> Presence:
        """What is known of a token; from the first question on its absences are counted.

        Of two machines under it the recorded one, `instance_id`, is the one that was found.
        """
        self.watch(token, till, account)
        watched = self._watched[token]
        known = self._accounts.get(till) or _Account()
        if known.trouble is not None:
            return Unknown(known.trouble, known.why)
        roster = known.roster
        assert roster is not None, "a till without trouble was listed"
        found = sorted(known.by_token.get(token, ()), key=lambda one: one.id != instance_id)  # stable
        if found:  # also under another identity: no other account can show our token
            return Found(found[0], tuple(found[1:]))
        if account and roster.account not in (*account, watched.seen_under):
            return Unknown(
                Trouble.ACCOUNT_CHANGED,
                f"the key belongs to account {roster.account} now; the machine was rented in account {account[-1]}",
            )
        if why := roster.doubt(token):
            return Unknown(Trouble.UNREACHABLE, why)
        span = max(0.0, watched.last_absent - watched.first_absent)
        return Absent(watched.absent, timedelta(seconds=span))

    def trouble(self, till: str) -> Unknown | None:
        """Why nothing can be said about a till now, and nothing should be bought there; None: it was listed."""
        known = self._accounts.get(till) or _Account()
        if known.trouble is not None:
            return Unknown(known.trouble, known.why)
        roster = known.roster
        return Unknown(Trouble.UNREACHABLE, roster.gap) if roster is not None and roster.lied else None

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

    def news(self, till: str) -> frozenset[str] | None:
        """Requests (by uid, as in tokens) of whom the last look said something new; None: it may concern everybody."""
        return self._news.get(till)

    def listed_since(self, till: str, moment: float) -> bool:
        """Was a complete list begun after this moment (Clock.boottime)?"""
        known = self._accounts.get(till)
        if known is None or known.trouble is not None or known.roster is None:
            return False
        return known.roster.complete and known.roster.began > moment

    # -- for the rounds -----------------------------------------------------------------------------------------------

    def put(self, till: str, roster: Roster) -> bool:
        """A look has come to its end. Is there anything new about it for those who decide?"""
        before = self._accounts.get(till)
        by_token: dict[str, tuple[Instance, ...]] = {}
        for instance in sorted(roster.instances, key=keepers_first):
            by_token[instance.token] = (*by_token.get(instance.token, ()), instance)
            if (token := read_token(instance.token)) is not None:
                self._remember(token.uid, token.attempt)
        self._accounts[till] = _Account(roster, None, "", by_token)
        counted = self._counted(till, roster, by_token)
        if before is None or _differs(before, roster):
            self._news[till] = None
            return True
        shown = before.by_token
        changed = {token for token in {*shown, *by_token} if shown.get(token) != by_token.get(token)}
        uids = (read.uid for token in changed | counted if (read := read_token(token)) is not None)
        self._news[till] = frozenset(uids)
        return bool(changed or counted)

    def fail(self, till: str, trouble: Trouble, why: str) -> bool:
        """It could not be listed. What was counted stays: absences need not be seen without a pause.

        Is that news?
        """
        self._news[till] = None
        known = self._accounts.setdefault(till, _Account())
        self._accounts[till] = replace(known, trouble=trouble, why=why)
        return (known.trouble, known.why) != (trouble, why)

    def drop(self, till: str) -> None:
        """Nobody needs it any more."""
        self._accounts.pop(till, None)
        self._news.pop(till, None)

    def tills(self) -> Iterable[str]:
        return tuple(self._accounts)

    def roster(self, till: str) -> Roster | None:
        """The last look that came to its end, whatever went wrong since; None: there was none."""
        known = self._accounts.get(till)
        return known.roster if known is not None else None

    def expected(self, till: str) -> list[str]:
        """Tokens that somebody wants to know about there."""
        return [token for token, watched in self._watched.items() if watched.till == till]

    def seen_as(self, token: str) -> str:
        """The id a watched token was last shown under; empty: never."""
        watched = self._watched.get(token)
        return watched.seen_as if watched is not None else ""

    def known_as(self, token: str) -> str:
        """The id it was last shown under, else the one that its order was answered with; empty: neither."""
        watched = self._watched.get(token)
        return (watched.seen_as or watched.told_as) if watched is not None else ""

    def watched_for(self, token: str) -> float:
        """Seconds since its absences count; 0: nobody asked."""
        watched = self._watched.get(token)
        return max(0.0, self._boottime() - watched.since) if watched is not None else 0.0

    def _counted(self, till: str, roster: Roster, by_token: Mapping[str, tuple[Instance, ...]]) -> set[str]:
        """Tokens whose absence counted for one more."""
        now, counted = self._boottime(), set()
        for token, watched in list(self._watched.items()):
            if watched.till != till:
                continue
            if _count(token, watched, roster, by_token.get(token, ())):
                counted.add(token)
            if now - watched.asked_at > FORGOTTEN_AFTER:
                del self._watched[token]
        return counted

    def _remember(self, uid: str, attempt: int) -> None:
        self._highest[uid] = max(self._highest.pop(uid, 0), attempt)
        if len(self._highest) > MOST_REMEMBERED:
            del self._highest[next(iter(self._highest))]


def _count(token: str, watched: _Watched, roster: Roster, shown: tuple[Instance, ...]) -> bool:
    if shown:
        watched.seen_as, watched.seen_under = shown[0].id, roster.account
    if shown or (watched.account and roster.account not in (*watched.account, watched.seen_under)):
        watched.first_absent, watched.last_absent, watched.absent = -1.0, -1.0, 0
    elif roster.began > watched.since and not roster.doubt(token):
        watched.first_absent = roster.began if not watched.absent else watched.first_absent
        watched.last_absent = roster.began
        watched.absent += 1
        return True
    return False


def _differs(before: _Account, roster: Roster) -> bool:
    """From what those who decide have seen, in more than its machines."""
    seen = before.roster
    if before.trouble is not None or seen is None:
        return True
    return (seen.account, seen.doubts, seen.gap, seen.lied) != (
        roster.account,
        roster.doubts,
        roster.gap,
        roster.lied,
    )
