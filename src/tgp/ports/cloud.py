"""One provider of machines, under one key. The eight verbs, and what a caller may rely on.

**Selling.** `offers` is the whole listing or an error; an offer whose price or shape makes no sense is left out and
counted in `Listing.dropped`, and nothing can be bought by it.

**Buying.** `launch` sends exactly one request that pays, under `order.token`, which goes into every field by which the
provider lets us find the machine again. It ends in one of five ways:

* an `Instance`: it exists under that id;
* a definite refusal, `SoldOut`, `OrderRefused`, `KeyRefused`, `AccountExhausted` or `CloudBusy`: *nothing was made*.
  Each adapter has an allow-list of answers that mean so; an answer that names an id is never among them;
* `OutcomeUnknown`: anything else. The caller searches for the token (`find`) until it is found, or absent for longer
  than `facts.listing_lag` and more (the launch protocol says how much). The same
  order is never sent again;
* `NotConfirmed`, raised by `order.confirm`: nothing was sent;
* any other exception is ours: a bug.

An order may wait in a queue for a slow provider, and an adapter may need other calls before it can order. So the
last check travels with the order: every adapter awaits `confirmed(order)` after all that, immediately before the one
request that pays, which then carries the time until which that check is valid (`not_after`).

**Looking.** `find`, `status` and `owned` answer from complete lists or raise. An empty answer is evidence only then:
a failed, partial, empty-bodied or unintelligible answer raises `CannotTell` or `CloudBusy`, never `()` or `None`.
Under a key of another account absence means nothing: compare `identity`.

**Terminating.** `terminate` asks for termination; an already missing machine is a success. Only `status` returning
None, or its absence from `owned`, twice and a listing lag apart, proves it. A stopped machine is not gone. Whatever
`terminate` raises, the machine may still be billed: the caller tries again. So a refused termination is `CloudBusy`,
`CannotTell` or `KeyRefused`, and no answer is `OutcomeUnknown`. The errors of a refused order (`OrderRefused`,
`SoldOut`, `AccountExhausted`) are never raised: they say that nothing was made and nothing is to be repeated.

**Checking.** `check` tries the key without spending: who it is, what it may do, what is left to spend. `identity` names
the account (account or project id, else a fingerprint of the key), so that "not listed" is never concluded from another
account's list.

The Go project's interface had five methods. `LaunchInstance` and `TerminateInstance` are `launch` and `terminate`;
`GetInstanceStatus` is `status`, where absence is a value; `ListAvailableGPUs` is `offers`, and so is `GetPricing`: a
price without its offer cannot be bought. It had no `find` and no `owned`, so it could not find forgotten machines.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Protocol, runtime_checkable

import msgspec

from tgp.core.model.instance import Instance
from tgp.core.model.offer import Offer
from tgp.core.model.provider_facts import CloudFacts

TOKEN_PREFIX = "tgp-"  # noqa: S105 - tgp-<cluster id>-<request uid>-<attempt>


@dataclass(frozen=True, slots=True)
class Container:
    """What a container provider starts; never Talos."""

    image: str
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    command: tuple[str, ...] = ()  # arguments of the entrypoint
    entrypoint: tuple[str, ...] = ()  # instead of the image's own; empty: the image's own


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """One order that pays. The caller has recorded the token first."""

    offer: Offer
    token: str
    max_hourly_microusd: int  # a machine that costs more is terminated by the caller
    bid_microusd: int | None = None  # of a spot offer on a marketplace: what we bid for the whole machine
    tags: tuple[tuple[str, str], ...] = ()  # the class's; ownership keys are written after them and win
    user_data: bytes = field(default=b"", repr=False)  # holds join secrets
    container: Container | None = None
    image: str = ""  # what to boot: a snapshot, an image, a template; empty: the settings' or the provider's usual one
    min_vcpus: int = 0  # of the whole machine, where an offer does not tell its own (`Offer.sized_by_order`); 0: any
    min_memory_gib: int = 0  # the same of its memory
    max_run: timedelta | None = None  # the provider terminates the machine then; only within `facts.longest_run`
    takes_over: bool = False  # a machine you own that is on already: it is recorded, and no power call is sent
    not_after: float | None = None  # Clock.boottime: the fence
    confirm: Callable[[], Awaitable[float]] | None = field(default=None, repr=False, compare=False)
    """The last check: until when (Clock.boottime) the order may leave. Raises NotConfirmed: it must not."""


async def confirmed(order: LaunchOrder) -> LaunchOrder:
    """The order after its last check; the request that pays is sent now or never."""
    if order.confirm is None:
        return order
    until = await order.confirm()
    return replace(order, not_after=until if order.not_after is None else min(until, order.not_after))


@dataclass(frozen=True, slots=True)
class Listing:
    """All offers of one provider under one key, at one time."""

    offers: tuple[Offer, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)  # why → how many were left out


class Account(msgspec.Struct, frozen=True):
    id: str  # never a key; `key:` and a digest where the provider names no account
    name: str = ""  # display name; empty: unknown


class Right(msgspec.Struct, frozen=True):
    """One thing a key must be able to do."""

    name: str
    held: bool | None  # None: the provider does not say, and trying would cost money
    note: str = ""


@dataclass(frozen=True, slots=True)
class KeyReport:
    """What could be learned of a key without spending anything."""

    account: Account
    rights: tuple[Right, ...] = ()
    balance_microusd: int | None = None  # None: unknown
    quota: str = ""  # in the provider's words
    can_buy: bool = True  # False: an empty balance, a suspended account …; the notes say
    notes: tuple[str, ...] = ()


class Cloud(Protocol):
    """A provider. The module's docstring has the protocol."""

    @property
    def facts(self) -> CloudFacts: ...

    async def offers(self) -> Listing: ...

    async def launch(self, order: LaunchOrder) -> Instance: ...

    async def find(self, token: str) -> tuple[Instance, ...]:
        """Every machine under exactly this token, by id; more than one if the provider launched two."""
        ...

    async def status(self, instance_id: str) -> Instance | None:
        """None: absent (a listing lag may still hide a machine launched just now)."""
        ...

    async def terminate(self, instance_id: str) -> None: ...

    async def owned(self, prefix: str) -> tuple[Instance, ...]:
        """Every machine of the account whose token begins with `prefix`, whatever its state, by id."""
        ...

    async def check(self) -> KeyReport: ...

    async def identity(self) -> Account: ...


@runtime_checkable
class HasLeftovers(Protocol):
    """A provider that keeps something besides the machine, such as a start-up script with join secrets."""

    async def cleanup(self, token: str) -> None:
        """The machine of this token, and of earlier attempts, is gone or was never launched: remove its leftovers.

        Repeatable. Raises CloudError: it may still be there.
        """
        ...
