"""What every provider's simulator has in common: whose key it is, what goes wrong, and then the provider's own route.

A simulator is a `Handler`: mounted on the simulated network or on a loopback port. Subclasses say how their provider
words things; the order of checks (cloud_fault, key, route) is the same for all.
"""

from abc import ABC, abstractmethod
from datetime import timedelta
from random import Random

from tgp.ports.http import Call, HangUp, Reply
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudFaults, CloudVerb
from tgp.sim.clouds.fleet import Fleet

PAGE_OF_A_PROXY = Reply(
    200, b"<!DOCTYPE html><html><body>Just a moment...</body></html>", (("Content-Type", "text/html"),)
)
PLAIN_BUSY = Reply(429, b"API requests too frequent\n", (("Content-Type", "text/plain"),))
NOTHING = Reply(200, b"", (("Content-Type", "application/json"),))
OTHER_SHAPE = Reply(200, b'[["unexpected"], null, 7]', (("Content-Type", "application/json"),))
GENERIC = {
    CloudFault.BUSY_TEXT: PLAIN_BUSY,
    CloudFault.HTML: PAGE_OF_A_PROXY,
    CloudFault.EMPTY_BODY: NOTHING,
    CloudFault.GARBAGE: OTHER_SHAPE,
}


class Simulator(ABC):
    provider: str
    key: str = ""  # opens its first account

    def __init__(self, fleet: Fleet, seed: int | str) -> None:
        self.fleet = fleet
        self.faults = CloudFaults(Random(f"{seed}/mishaps"))
        self.calls: dict[CloudVerb, int] = dict.fromkeys(CloudVerb, 0)
        self.fault: CloudFault | None = None  # of the call being answered
        self.verb: CloudVerb | None = (
            None  # of the call being answered; None: whatever happens now, no client asked for it
        )

    async def handle(self, call: Call) -> Reply:
        """One call, answered at once: nothing here waits, so calls do not overlap."""
        verb = self.verb_of(call)
        self.calls[verb] += 1
        self.fault = cloud_fault = self.faults.draw(verb)
        self.fleet.advance()  # what happened by itself before this call is not of its making
        self.verb = verb
        try:
            return self._answer(call, verb, cloud_fault)
        finally:
            self.verb = None

    def _answer(self, call: Call, verb: CloudVerb, cloud_fault: CloudFault | None) -> Reply:
        if (early := self._early(cloud_fault)) is not None:
            return early
        key = self.key_of(call)
        self._meddle_with(key, cloud_fault)
        tenant = self.fleet.accounts.of(key)
        if tenant is None and not self.is_public(call):
            return self.stranger(call)
        reply = self.route(call, verb, tenant)
        if cloud_fault is CloudFault.HANG_UP_AFTER:
            raise HangUp
        return self.failure() if cloud_fault is CloudFault.ERROR_AFTER else reply

    def _early(self, cloud_fault: CloudFault | None) -> Reply | None:
        """An answer that comes before anything happened."""
        match cloud_fault:
            case CloudFault.HANG_UP:
                raise HangUp
            case CloudFault.ERROR:
                return self.failure()
            case CloudFault.BUSY:
                return self.busy()
            case CloudFault.LIST_GONE:
                return self.retired()
            case None:
                return None
            case _:
                return GENERIC.get(cloud_fault)

    def _meddle_with(self, key: str, cloud_fault: CloudFault | None) -> None:
        if cloud_fault is CloudFault.KEY_REVOKED:
            self.fleet.accounts.revoke(key)
        tenant = self.fleet.accounts.of(key)
        if cloud_fault is CloudFault.OTHER_ACCOUNT and tenant is not None:
            self.fleet.accounts.hand_over(key, self.fleet.accounts.other_than(tenant.id).id)

    # -- what a provider says in its own words -------------------------------------------------------------------------

    @abstractmethod
    def verb_of(self, call: Call) -> CloudVerb: ...

    @abstractmethod
    def route(self, call: Call, verb: CloudVerb, tenant: Tenant | None) -> Reply:
        """The answer of the provider. `self.fault` says what else befalls this call; no tenant: a public call."""

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
        """The key of the first account, for clients that reach this simulator at `url`."""
        return self.key

    def tolerate(self, skew: timedelta) -> None:  # noqa: B027 - most providers do not check clocks
        """Clients' clocks may be off by so much: for a world whose own clock is behind theirs."""

    def is_public(self, call: Call) -> bool:  # noqa: ARG002 - an override looks at it
        return False

    def key_of(self, call: Call) -> str:
        scheme, _, key = call.header("Authorization").partition(" ")
        return key.strip() if scheme.lower() == "bearer" else ""
