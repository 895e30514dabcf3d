"""The fleet engine: stock, prices that move, machines that boot, stop, are lost and cost money, to the second.

It has no tasks of its own. Every read first brings it up to date (`advance`), event by event in the
order of time, so that equal seeds and equal questions give equal answers on any loop. `next_due` returns when
something would happen by itself.
"""

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from random import Random
from typing import TypeAlias

from tgp.ports.clock import Clock
from tgp.sim.clouds.accounts import SimulatedAccounts, Tenant
from tgp.sim.clouds.cloud_faults import CloudFault
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.stock import Product

MARKET_STEP = timedelta(minutes=2)  # prices and stock move then
WANDER = 0.02  # of a price, per step
PULL = 0.05  # back to where it began, per step
LOWEST, HIGHEST = 0.6, 1.8  # times the first price
TRADE_CHANCE = 0.08  # per product and step: another customer comes or goes
TROUBLE_WITHIN = (30.0, 900.0)  # seconds after the start, for what befalls a running machine
SOLD_TWICE_WITHIN = (20.0, 90.0)
LONG_LAG = timedelta(minutes=4)
ENDING_SECONDS = (2.0, 20.0)
OVERBILLED_BY = 1.5
EVENTS_MAX = 1_000_000  # in one go; more means a clock that jumped by years

Listener: TypeAlias = Callable[[SimulatedMachine, Phase], None]


class OutOfStock(Exception):
    """Nothing is left on that product."""


class Outbid(Exception):
    """The bid is below the price."""


class Broke(Exception):
    """The account has no balance or no quota left."""


@dataclass(slots=True)
class Lie:
    """What a provider says of machines that is not so, in every wire format."""

    denies: bool = False  # lists are empty, and each id is unknown: the lies agree with each other
    times: int = 1  # so many times its price
    phase: Phase | None = None  # they are said to be in; None: the one they are in
    lists: int | None = None  # so many lists lie, and what is asked by id is true; None: all, until it is taken back

    def of(self, machine: SimulatedMachine) -> SimulatedMachine:
        shown = replace(machine, rate_microusd=machine.rate_microusd * self.times, phase=self.phase or machine.phase)
        shown.charge(shown.rate_microusd, machine.created_at)
        return shown


@dataclass(frozen=True, slots=True)
class Habits:
    """How this provider behaves."""

    list_lag: tuple[float, float] = (0.0, 3.0)  # seconds until a launch is listed
    ending: tuple[float, float] = ENDING_SECONDS
    idle_share: float = 0.05  # of the price, for the disk of a stopped machine
    outbid_deletes: bool = False  # a spot machine that is outbid is gone, not stopped
    charges_from_creation: bool = True  # else from running
    moves: bool = True  # do prices and stock move?


@dataclass(slots=True)
class Stand:
    """A product as it is now."""

    product: Product
    hourly_microusd: int
    spot_microusd: int | None
    stock: int


@dataclass(frozen=True, slots=True)
class WantedMachine:
    """What a renter asks for."""

    product: str
    name: str
    spot: bool = False
    bid_microusd: int | None = None
    tags: tuple[tuple[str, str], ...] = ()
    user_data: bytes = b""
    detail: tuple[tuple[str, object], ...] = ()
    max_run: timedelta | None = None  # the provider terminates it so long after it started to run
    by_hand: bool = False  # no client ordered it
    booted: bool = False  # it was on before the world began


class Fleet:
    def __init__(
        self,
        clock: Clock,
        seed: int | str,
        products: Iterable[Product],
        *,
        habits: Habits = Habits(),  # noqa: B008 - frozen
        new_id: Callable[[Random], str] = lambda luck: f"m-{luck.getrandbits(48):012x}",
    ) -> None:
        self.accounts = SimulatedAccounts()
        self.habits = habits
        self.stands = {
            product.id: Stand(product, product.hourly_microusd, product.spot_microusd, product.stock)
            for product in products
        }
        self.machines: dict[str, SimulatedMachine] = {}  # every one there ever was, in the order of their making
        self._living: dict[
            str, SimulatedMachine
        ] = {}  # of them those that are not gone: worlds that last have many that are
        self._paid_microusd: dict[str, int] = {}  # by account: what the gone ones cost
        self._clock = clock
        self._luck = Random(f"{seed}/fleet")
        self._market = Random(f"{seed}/market")
        self._new_id = new_id
        self._events: list[tuple[datetime, int, Callable[[datetime], None]]] = []
        self._count = 0
        self._listeners: list[Listener] = []
        self._market_at = clock.now() + MARKET_STEP
        self.lie: Lie | None = None  # None: what it says is true

    # -- time ----------------------------------------------------------------------------------------------------------

    def advance(self) -> datetime:
        """Advance everything to the present; returns the present."""
        now = self._clock.now()
        for _ in range(EVENTS_MAX):
            due = self.next_due()
            if due > now:
                break
            if due == self._market_at:
                self._market_at = due + MARKET_STEP
                self._move_market(due)
            else:
                heapq.heappop(self._events)[2](due)
        return now

    def next_due(self) -> datetime:
        """When something happens next by itself."""
        return min(self._events[0][0], self._market_at) if self._events else self._market_at

    def next_of_machines(self) -> datetime | None:
        """The same, of the machines alone; None: nothing is under way with any of them. The market moves on request."""
        if self._living and self.habits.moves:
            return self.next_due()  # prices outbid them
        return self._events[0][0] if self._events else None

    def living(self) -> list[SimulatedMachine]:
        """All that are not gone, in the order of their making."""
        return list(self._living.values())

    def listen(self, listener: Listener) -> None:
        """Called with each machine that changed, and the phase it was in before."""
        self._listeners.append(listener)

    def _at(self, when: datetime, happen: Callable[[datetime], None]) -> None:
        self._count += 1
        heapq.heappush(self._events, (when, self._count, happen))

    def _after(self, now: datetime, seconds: float, happen: Callable[[datetime], None]) -> None:
        self._at(now + timedelta(seconds=seconds), happen)

    # -- renting -------------------------------------------------------------------------------------------------------

    def rent(self, tenant: Tenant, wanted: WantedMachine, cloud_fault: CloudFault | None = None) -> SimulatedMachine:
        """One machine, from now on. Raises Empty, Outbid or Broke, and then nothing happened."""
        now = self.advance()
        stand = self.stands.get(wanted.product)
        if (
            stand is None
            or cloud_fault is CloudFault.SOLD_OUT
            or (stand.stock <= 0 and cloud_fault is not CloudFault.SOLD_TWICE)
        ):
            raise OutOfStock(wanted.product)
        self._check_balance(tenant, cloud_fault, now)
        price = self._price(stand, wanted)
        machine = self._make(tenant, stand, wanted, price, now)
        stand.stock = max(stand.stock - 1, 0)
        self._befall(machine, cloud_fault, now)
        if cloud_fault is CloudFault.MADE_TWICE:
            self._make(tenant, stand, wanted, price, now)
            stand.stock = max(stand.stock - 1, 0)
        return machine

    def _check_balance(self, tenant: Tenant, cloud_fault: CloudFault | None, now: datetime) -> None:
        if cloud_fault is CloudFault.BROKE:
            raise Broke(tenant.id)
        left = self.balance_microusd(tenant, now)
        if left is not None and left <= 0:
            raise Broke(tenant.id)
        living = sum(machine.account == tenant.id for machine in self._living.values())
        if tenant.most_machines is not None and living >= tenant.most_machines:
            raise Broke(tenant.id)

    def _price(self, stand: Stand, wanted: WantedMachine) -> int:
        if not wanted.spot:
            return stand.hourly_microusd
        if stand.spot_microusd is None:
            raise OutOfStock(wanted.product)
        if wanted.bid_microusd is not None and wanted.bid_microusd < stand.spot_microusd:
            raise Outbid(wanted.product)
        return stand.spot_microusd if wanted.bid_microusd is None else wanted.bid_microusd

    def _make(
        self, tenant: Tenant, stand: Stand, wanted: WantedMachine, price: int, now: datetime, *, foreign: bool = False
    ) -> SimulatedMachine:
        number = len(self.machines)
        machine = SimulatedMachine(
            self._new_id(self._luck),
            tenant.id,
            stand.product,
            wanted.name,
            created_at=now,
            visible_at=now + timedelta(seconds=self._luck.uniform(*self.habits.list_lag)),
            rate_microusd=price,
            idle_rate_microusd=int(stand.hourly_microusd * self.habits.idle_share),
            spot=wanted.spot,
            bid_microusd=wanted.bid_microusd,
            tags=dict(wanted.tags),
            user_data=wanted.user_data,
            detail=dict(wanted.detail),
            max_run=wanted.max_run,
            foreign=foreign,
            by_hand=wanted.by_hand,
            public_ip=f"203.0.113.{number % 250 + 1}",
            private_ip=f"10.19.{number // 250 % 250}.{number % 250 + 1}",
        )
        self.machines[machine.id] = self._living[machine.id] = machine
        if self.habits.charges_from_creation:
            machine.charge(machine.rate_microusd, now)
        seconds = stand.product.boot_seconds * self._luck.uniform(0.7, 1.4)
        self._after(now, 0.0 if wanted.booted else seconds, lambda at: self._boot(machine, at))
        self._tell(machine, Phase.GONE)
        return machine

    def _boot(self, machine: SimulatedMachine, now: datetime) -> None:
        if machine.phase is Phase.STARTING and not machine.stuck:
            machine.running_at = now
            machine.charge(machine.rate_microusd, now)
            self._turn(machine, Phase.RUNNING)
            if machine.max_run is not None:
                self._at(now + machine.max_run, lambda at: self._end_run(machine, now, at))

    def _befall(self, machine: SimulatedMachine, cloud_fault: CloudFault | None, now: datetime) -> None:
        """What will go wrong with this one machine."""
        boot = machine.product.boot_seconds * 1.4
        trouble = boot + self._luck.uniform(*TROUBLE_WITHIN)
        match cloud_fault:
            case CloudFault.STUCK:
                machine.stuck = True
            case CloudFault.NO_ADDRESS:
                machine.addressless = True
            case CloudFault.OVERBILLED:
                machine.rate_microusd = int(machine.rate_microusd * OVERBILLED_BY)
                if self.habits.charges_from_creation:
                    machine.charge(machine.rate_microusd, now)
            case CloudFault.LIST_LAGS:
                machine.visible_at = now + LONG_LAG
            case CloudFault.SOLD_TWICE:
                self._after(now, self._luck.uniform(*SOLD_TWICE_WITHIN), lambda at: self.lose(machine, at))
            case CloudFault.OUTBID:
                self._after(now, trouble, lambda at: self.interrupt(machine, at))
            case CloudFault.OFFLINE:
                self._after(now, trouble, lambda at: self.lose(machine, at))
            case CloudFault.PREEMPTED:
                self._after(now, trouble, lambda at: self._preempt(machine, at))
            case CloudFault.VANISHED:
                self._after(now, trouble, lambda at: self._gone(machine, at, "vanished"))
            case _:
                pass

    # -- the life of a machine -----------------------------------------------------------------------------------------

    def interrupt(self, machine: SimulatedMachine, now: datetime) -> None:
        """Outbid: stopped with its disk on the bill, or gone, as this provider does it."""
        if machine.phase not in (Phase.STARTING, Phase.RUNNING):
            return
        machine.interrupted = True
        if self.habits.outbid_deletes:
            self._gone(machine, now, "outbid")
        else:
            self.stop(machine, now, "outbid")

    def stop(self, machine: SimulatedMachine, now: datetime, why: str) -> None:
        if machine.phase in (Phase.STARTING, Phase.RUNNING):
            machine.why = why
            machine.charge(machine.idle_rate_microusd, now)
            self._turn(machine, Phase.STOPPED)

    def start(self, machine: SimulatedMachine, now: datetime) -> None:
        if machine.phase is Phase.STOPPED:
            machine.why, machine.interrupted = "", False
            machine.charge(machine.rate_microusd, now)
            self._turn(machine, Phase.STARTING)
            self._after(now, machine.product.boot_seconds, lambda at: self._boot(machine, at))

    def lose(self, machine: SimulatedMachine, now: datetime) -> None:
        """Its host is gone; it stays listed, and is not billed."""
        if machine.phase in (Phase.STARTING, Phase.RUNNING):
            machine.why = "host lost"
            machine.charge(0, now)
            self._turn(machine, Phase.LOST)

    def end(self, machine: SimulatedMachine, cloud_fault: CloudFault | None = None) -> None:
        """The renter terminates it."""
        now, machine = self.advance(), self.machines[machine.id]  # itself, whatever was said of it
        if cloud_fault is CloudFault.DELETE_IGNORED:
            return
        if machine.phase not in (Phase.ENDING, Phase.GONE):
            self._turn(machine, Phase.ENDING)
            self._after(now, self._luck.uniform(*self.habits.ending), lambda at: self._gone(machine, at, "deleted"))

    def _end_run(self, machine: SimulatedMachine, running_at: datetime, now: datetime) -> None:
        """It ran as long as it may. One that was stopped meanwhile counts from its next start."""
        if machine.phase is Phase.RUNNING and machine.running_at == running_at:
            self._turn(machine, Phase.ENDING)
            self._after(
                now, self._luck.uniform(*self.habits.ending), lambda at: self._gone(machine, at, "ran too long")
            )

    def announce(self, machine: SimulatedMachine, ends_at: datetime | None) -> None:
        """Its host takes it back then, and lists show it from now on; None: it stays after all."""
        self.advance()
        machine.ends_at = ends_at
        if ends_at is not None:
            self._at(ends_at, lambda at: self._take_back(machine, at))

    def _take_back(self, machine: SimulatedMachine, now: datetime) -> None:
        if machine.ends_at == now:  # not put off meanwhile
            self._gone(machine, now, "taken back")

    def vanish(self, machine: SimulatedMachine) -> None:
        """Gone, without a notice."""
        self._gone(machine, self.advance(), "vanished")

    def _preempt(self, machine: SimulatedMachine, now: datetime) -> None:
        if machine.phase in (Phase.STARTING, Phase.RUNNING):
            machine.interrupted = True
            self._gone(machine, now, "preempted")

    def revive(self, machine: SimulatedMachine) -> None:
        """It runs, whatever became of it: for clients that read one machine for ever."""
        machine.phase = Phase.RUNNING
        self._living[machine.id] = machine

    def forget(self, machine: SimulatedMachine) -> None:
        """As if it had never been."""
        del self.machines[machine.id]
        self._living.pop(machine.id, None)

    def _gone(self, machine: SimulatedMachine, now: datetime, why: str) -> None:
        if machine.phase is Phase.GONE:
            return
        machine.why, machine.ended_at = why, now
        machine.charge(0, now)
        self._living.pop(machine.id, None)  # it may be forgotten
        self._paid_microusd[machine.account] = self._paid_microusd.get(machine.account, 0) + machine.cost_microusd(now)
        stand = self.stands.get(machine.product.id)
        if stand is not None:
            stand.stock += 1
        self._turn(machine, Phase.GONE)

    def _turn(self, machine: SimulatedMachine, phase: Phase) -> None:
        before, machine.phase = machine.phase, phase
        self._tell(machine, before)

    def _tell(self, machine: SimulatedMachine, before: Phase) -> None:
        for listener in self._listeners:
            listener(machine, before)

    # -- looking -------------------------------------------------------------------------------------------------------

    def listed(self, tenant: Tenant) -> list[SimulatedMachine]:
        """What a list of this account shows now, in the order of making: a new machine may be missing."""
        now, lie = self.advance(), self.lie
        found = [
            machine for machine in self._living.values() if machine.account == tenant.id and machine.visible_at <= now
        ]
        if lie is None:
            return found
        if lie.lists is not None:
            lie.lists -= 1
            self.lie = lie if lie.lists else None
        return [] if lie.denies else [lie.of(machine) for machine in found]

    def get(self, tenant: Tenant, machine_id: str) -> SimulatedMachine | None:
        """One machine by its id; a lag hides it here, too."""
        now = self.advance()
        machine = self.machines.get(machine_id)
        if machine is None or machine.account != tenant.id or not machine.alive or machine.visible_at > now:
            return None
        if self.lie is None or self.lie.lists is not None:
            return machine
        return None if self.lie.denies else self.lie.of(machine)

    def selling(self) -> list[Stand]:
        self.advance()
        return list(self.stands.values())

    def balance_microusd(self, tenant: Tenant, now: datetime) -> int | None:
        if tenant.balance_microusd is None:
            return None
        return tenant.balance_microusd - self.bill_microusd(tenant, now)

    def bill_microusd(self, tenant: Tenant, now: datetime) -> int:
        running = sum(machine.cost_microusd(now) for machine in self._living.values() if machine.account == tenant.id)
        return self._paid_microusd.get(tenant.id, 0) + running

    def add_foreign(self, tenant: Tenant, count: int) -> None:
        """Machines that another tool has run in the same account for long: listed at once, whatever is in stock."""
        now = self.advance()
        stands = list(self.stands.values())
        for _ in range(count):
            stand = self._luck.choice(stands)
            wanted = WantedMachine(stand.product.id, f"another-owners-{len(self.machines)}")
            machine = self._make(tenant, stand, wanted, stand.hourly_microusd, now, foreign=True)
            machine.visible_at = now

    # -- the market ----------------------------------------------------------------------------------------------------

    def _move_market(self, now: datetime) -> None:
        for stand in self.stands.values() if self.habits.moves else ():
            self._move(stand)
        for machine in self.living():
            self._settle_bid(machine, now)
        for tenant in self.accounts:
            self._settle_purse(tenant, now)

    def _move(self, stand: Stand) -> None:
        product, luck = stand.product, self._market
        stand.hourly_microusd = _wander(stand.hourly_microusd, product.hourly_microusd, luck)
        if stand.spot_microusd is not None and product.spot_microusd is not None:
            stand.spot_microusd = _wander(stand.spot_microusd, product.spot_microusd, luck, 3 * WANDER)
            stand.spot_microusd = min(stand.spot_microusd, stand.hourly_microusd)
        if luck.random() < TRADE_CHANCE:
            change = 1 if stand.stock == 0 else luck.choice((-1, 1))
            stand.stock = min(max(stand.stock + change, 0), self._most_in_stock(product))

    def _most_in_stock(self, product: Product) -> int:
        """Twice what there was; of a marketplace's own machine never more than is not rented out by us."""
        if not product.host:
            return max(2 * product.stock, 1)
        rented = sum(machine.product.id == product.id for machine in self._living.values())
        return max(product.stock - rented, 0)

    def _settle_bid(self, machine: SimulatedMachine, now: datetime) -> None:
        stand = self.stands.get(machine.product.id)
        if not machine.spot or machine.bid_microusd is None or stand is None or stand.spot_microusd is None:
            return
        if machine.bid_microusd < stand.spot_microusd:
            self.interrupt(machine, now)
        elif machine.phase is Phase.STOPPED and machine.interrupted:
            self.start(machine, now)

    def _settle_purse(self, tenant: Tenant, now: datetime) -> None:
        left = self.balance_microusd(tenant, now)
        if left is not None and left <= 0:
            for machine in self.living():
                if machine.account == tenant.id:
                    self.stop(machine, now, "no balance")

    def restock(self, shelf_id: str, stock: int) -> None:
        self.stands[shelf_id].stock = stock

    def reprice(self, shelf_id: str, hourly_microusd: int, spot_microusd: int | None = None) -> None:
        """From now on the price wanders around this one."""
        stand = self.stands[shelf_id]
        spot = spot_microusd if spot_microusd is not None else stand.product.spot_microusd
        stand.product = replace(stand.product, hourly_microusd=hourly_microusd, spot_microusd=spot)
        stand.hourly_microusd, stand.spot_microusd = hourly_microusd, spot


def _wander(price: int, home: int, luck: Random, step: float = WANDER) -> int:
    moved = price * (1 + luck.uniform(-step, step)) + (home - price) * PULL
    return int(min(max(moved, home * LOWEST), home * HIGHEST))
