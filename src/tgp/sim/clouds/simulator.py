"""What every provider's simulator has in common: whose key it is, what goes wrong, and then the provider's own route.

A simulator is a `Handler`: mounted on the pretend network or on a loopback port. Subclasses say how their provider
words things; the order of checks (mishap, key, route) is the same for all.
"""

from abc import ABC, abstractmethod
from datetime import timedelta
from random import Random

from tgp.ports.http import Call, HangUp, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.fleet import Fleet
from tgp.sim.clouds.mishaps import Mishap, Mishaps, Verb

PAGE_OF_A_PROXY = Reply(
    200, b"<!DOCTYPE html><html><body>Just a moment...</body></html>", (("Content-Type", "text/html"),)
)
PLAIN_BUSY = Reply(429, b"API requests too frequent\n", (("Content-Type", "text/plain"),))
NOTHING = Reply(200, b"", (("Content-Type", "application/json"),))
OTHER_SHAPE = Reply(200, b'[["unexpected"], null, 7]', (("Content-Type", "application/json"),))
GENERIC = {
    Mishap.BUSY_TEXT: PLAIN_BUSY,
    Mishap.HTML: PAGE_OF_A_PROXY,
    Mishap.EMPTY_BODY: NOTHING,
    Mishap.GARBAGE: OTHER_SHAPE,
}


class Simulator(ABC):
    provider: str
    key: str = ""  # opens its first account

    def __init__(self, fleet: Fleet, seed: int | str) -> None:
        self.fleet = fleet
        self.mishaps = Mishaps(Random(f"{seed}/mishaps"))
        self.calls: dict[Verb, int] = dict.fromkeys(Verb, 0)
        self.mishap: Mishap | None = None  # of the call being answered
        self.verb: Verb | None = None  # of the call being answered; None: whatever happens now, no client asked for it

    async def handle(self, call: Call) -> Reply:
        """One call, answered at once: nothing here waits, so calls do not overlap."""
        verb = self.verb_of(call)
        self.calls[verb] += 1
        self.mishap = mishap = self.mishaps.draw(verb)
        self.fleet.advance()  # what happened by itself before this call is not of its making
        self.verb = verb
        try:
            return self._answer(call, verb, mishap)
        finally:
            self.verb = None

    def _answer(self, call: Call, verb: Verb, mishap: Mishap | None) -> Reply:
        if (early := self._early(mishap)) is not None:
            return early
        key = self.key_of(call)
        self._meddle_with(key, mishap)
        tenant = self.fleet.accounts.of(key)
        if tenant is None and not self.is_public(call):
            return self.stranger(call)
        reply = self.route(call, verb, tenant)
        if mishap is Mishap.HANG_UP_AFTER:
            raise HangUp
        return self.failure() if mishap is Mishap.ERROR_AFTER else reply

    def _early(self, mishap: Mishap | None) -> Reply | None:
        """An answer that comes before anything happened."""
        match mishap:
            case Mishap.HANG_UP:
                raise HangUp
            case Mishap.ERROR:
                return self.failure()
            case Mishap.BUSY:
                return self.busy()
            case Mishap.LIST_GONE:
                return self.retired()
            case None:
                return None
            case _:
                return GENERIC.get(mishap)

    def _meddle_with(self, key: str, mishap: Mishap | None) -> None:
        if mishap is Mishap.KEY_REVOKED:
            self.fleet.accounts.revoke(key)
        tenant = self.fleet.accounts.of(key)
        if mishap is Mishap.OTHER_ACCOUNT and tenant is not None:
            self.fleet.accounts.hand_over(key, self.fleet.accounts.other_than(tenant.id).id)

    # -- what a provider says in its own words -------------------------------------------------------------------------

    @abstractmethod
    def verb_of(self, call: Call) -> Verb: ...

    @abstractmethod
    def route(self, call: Call, verb: Verb, tenant: Tenant | None) -> Reply:
        """The answer of the provider. `self.mishap` says what else befalls this call; no tenant: a public call."""

    @abstractmethod
    def stranger(self, call: Call) -> Reply:
        """To an unknown key."""

    @abstractmethod
    def busy(self) -> Reply:
        """429 with Retry-After."""

    @abstractmethod
    def failure(self) -> Reply:
        """5xx."""

    @abstractmethod
    def retired(self) -> Reply:
        """410 for an endpoint that is no more."""

    def key_at(self, url: str) -> str:  # noqa: ARG002 - an override looks at it
        """The key of the first account, for whoever reaches this simulator at `url`."""
        return self.key

    def tolerate(self, skew: timedelta) -> None:  # noqa: B027 - most providers look at nobody's clock
        """Visitors' clocks may be off by so much: of a world whose own clock is behind everybody's."""

    def is_public(self, call: Call) -> bool:  # noqa: ARG002 - an override looks at it
        return False

    def key_of(self, call: Call) -> str:
        scheme, _, key = call.header("Authorization").partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""
