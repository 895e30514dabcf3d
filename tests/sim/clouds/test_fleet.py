"""The fleet engine: what providers' simulators share must itself be beyond doubt."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import pytest

from tgp.sim.clock import GENESIS
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import WHERE, CloudFault, CloudFaults, CloudVerb
from tgp.sim.clouds.fleet import LONG_LAG, MARKET_STEP, Broke, Fleet, Habits, Outbid, OutOfStock, WantedMachine
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.clouds.stock import Product

DOLLAR = 1_000_000
HOUR = timedelta(hours=1)
STILL = Habits(list_lag=(0.0, 0.0), ending=(10.0, 10.0), moves=False)


@dataclass
class HandClock:
    seconds: float = 0.0
    start: datetime = field(default=GENESIS)

    def now(self) -> datetime:
        return self.start + timedelta(seconds=self.seconds)

    def boottime(self) -> float:
        return self.seconds

    def pass_by(self, length: timedelta | float) -> None:
        self.seconds += length.total_seconds() if isinstance(length, timedelta) else length


def a_shelf(**changes: object) -> Product:
    values: dict[str, object] = {
        "sku": "h100",
        "place": "here",
        "gpu": "H100-SXM",
        "gpu_count": 1,
        "gpu_memory_gib": 80,
        "vcpus": 26,
        "memory_gib": 225,
        "disk_gib": 1_000,
        "hourly_microusd": 3 * DOLLAR,
        "spot_microusd": DOLLAR,
        "stock": 3,
        "boot_seconds": 100.0,
    }
    return Product(**{**values, **changes})  # type: ignore[arg-type]


@dataclass
class Yard:
    clock: HandClock
    fleet: Fleet
    tenant: Tenant

    def rent(self, cloud_fault: CloudFault | None = None, **wanted: object) -> SimulatedMachine:
        order = WantedMachine(**{"product": "h100@here", "name": "mine", **wanted})  # type: ignore[arg-type]
        return self.fleet.rent(self.tenant, order, cloud_fault)

    def bill(self) -> int:
        return self.fleet.bill_microusd(self.tenant, self.fleet.advance())


def a_yard(habits: Habits = STILL, *, seed: int = 1, balance: int | None = None, **product: object) -> Yard:
    clock = HandClock()
    fleet = Fleet(clock, seed, [a_shelf(**product)], habits=habits)
    return Yard(clock, fleet, fleet.accounts.open(Tenant("us", balance_microusd=balance), "key"))


# -- the bill ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [1, 59, 3_600, 3_601, 86_400])
def test_a_machine_is_billed_to_the_second(seconds: int) -> None:
    """No rounding to minutes or hours: what was used is what is owed, rounded up to a micro-dollar once."""
    yard = a_yard()
    yard.rent()
    yard.clock.pass_by(seconds)

    assert yard.bill() == -(-3 * DOLLAR * seconds // 3_600)


def test_a_bill_does_not_depend_on_how_often_it_is_asked_for() -> None:
    often, seldom = a_yard(), a_yard()
    often.rent()
    seldom.rent()
    for _ in range(1_000):
        often.clock.pass_by(3.7)
        often.bill()
    seldom.clock.pass_by(3_700)

    assert often.clock.now() - seldom.clock.now() < timedelta(milliseconds=1)
    assert abs(often.bill() - seldom.bill()) <= 1


def test_a_provider_that_charges_from_running_asks_nothing_for_the_boot() -> None:
    yard = a_yard(Habits(list_lag=(0.0, 0.0), charges_from_creation=False, moves=False))
    machine = yard.rent()
    yard.clock.pass_by(60)
    assert yard.bill() == 0
    yard.clock.pass_by(HOUR)
    yard.fleet.advance()

    assert machine.running_at is not None
    used = yard.clock.now() - machine.running_at
    assert yard.bill() == -(-3 * DOLLAR * (used // timedelta(microseconds=1)) // 3_600_000_000)


def test_a_more_expensive_machine_costs_more_from_when_it_is_charged() -> None:
    yard = a_yard(Habits(list_lag=(0.0, 0.0), charges_from_creation=False, moves=False))
    yard.rent(CloudFault.OVERBILLED)
    yard.clock.pass_by(60)

    assert yard.bill() == 0


def test_a_stopped_machine_costs_its_disk() -> None:
    yard = a_yard()
    machine = yard.rent()
    yard.clock.pass_by(HOUR)
    yard.fleet.advance()
    yard.fleet.stop(machine, yard.clock.now(), "asked for")
    yard.clock.pass_by(HOUR)

    assert yard.bill() == 3 * DOLLAR + int(3 * DOLLAR * STILL.idle_share)
    assert yard.fleet.listed(yard.tenant) == [machine]


def test_a_lost_machine_is_listed_and_free() -> None:
    yard = a_yard()
    machine = yard.rent()
    yard.clock.pass_by(HOUR)
    yard.fleet.advance()
    yard.fleet.lose(machine, yard.clock.now())
    yard.clock.pass_by(HOUR)

    assert yard.bill() == 3 * DOLLAR
    assert [each.phase for each in yard.fleet.listed(yard.tenant)] == [Phase.LOST]


def test_a_machine_costs_until_it_is_gone_and_not_a_second_longer() -> None:
    yard = a_yard()
    machine = yard.rent()
    yard.clock.pass_by(HOUR)
    yard.fleet.end(machine)
    yard.clock.pass_by(24 * HOUR)

    assert yard.bill() == -(-3 * DOLLAR * 3_610 // 3_600)
    assert machine.ended_at == GENESIS + timedelta(seconds=3_610)


def test_an_ignored_end_goes_on_costing() -> None:
    yard = a_yard()
    yard.fleet.end(yard.rent(), CloudFault.DELETE_IGNORED)
    yard.clock.pass_by(HOUR)

    assert yard.bill() == 3 * DOLLAR


# -- stock and purse ---------------------------------------------------------------------------------------------------


def test_stock_goes_out_and_comes_back() -> None:
    yard = a_yard(stock=1)
    machine = yard.rent()
    with pytest.raises(OutOfStock):
        yard.rent()
    yard.fleet.end(machine)
    yard.clock.pass_by(11)

    assert yard.rent().id != machine.id


def test_two_machines_for_one_order_are_two_out_of_stock() -> None:
    yard = a_yard(stock=3)
    yard.rent(CloudFault.MADE_TWICE)

    assert yard.fleet.selling()[0].stock == 1
    assert [machine.name for machine in yard.fleet.listed(yard.tenant)] == ["mine", "mine"]


def test_a_refused_order_makes_nothing_and_costs_nothing() -> None:
    yard = a_yard(balance=0)
    with pytest.raises(Broke):
        yard.rent()
    with pytest.raises(Outbid):
        a_yard().rent(spot=True, bid_microusd=DOLLAR // 2)
    with pytest.raises(OutOfStock):
        a_yard(spot_microusd=None).rent(spot=True)
    with pytest.raises(OutOfStock):
        a_yard().rent(product="nowhere")

    assert yard.fleet.machines == {}
    assert yard.bill() == 0


def test_a_quota_counts_what_is_alive() -> None:
    yard = a_yard()
    yard.tenant.most_machines = 1
    machine = yard.rent()
    with pytest.raises(Broke):
        yard.rent()
    yard.fleet.end(machine)
    yard.clock.pass_by(11)

    assert yard.rent().alive


def test_an_empty_balance_stops_everything_that_runs() -> None:
    yard = a_yard(Habits(list_lag=(0.0, 0.0)), balance=DOLLAR)
    machine = yard.rent()
    yard.clock.pass_by(timedelta(minutes=30))
    yard.fleet.advance()

    assert machine.phase is Phase.STOPPED
    left = yard.fleet.balance_microusd(yard.tenant, yard.clock.now())
    assert left is not None
    assert -DOLLAR // 5 < left <= 0  # found out at the next step of the market


def test_the_one_machine_of_a_host_is_not_sold_while_it_is_rented() -> None:
    """A marketplace's ask is one machine: other customers cannot put a second one on its product."""
    yard = a_yard(Habits(list_lag=(0.0, 0.0)), stock=1, host="h-1", spot_microusd=None)
    yard.rent()
    for _ in range(500):
        yard.clock.pass_by(MARKET_STEP)
        assert yard.fleet.selling()[0].stock == 0


def test_prices_and_stock_stay_within_their_bounds() -> None:
    yard = a_yard(Habits(), stock=2)
    for _ in range(2_000):
        yard.clock.pass_by(MARKET_STEP)
        (stand,) = yard.fleet.selling()
        assert 1.8 * DOLLAR <= stand.hourly_microusd <= 5.4 * DOLLAR
        assert stand.spot_microusd is not None
        assert stand.spot_microusd <= stand.hourly_microusd
        assert 0 <= stand.stock <= 4


# -- lists -------------------------------------------------------------------------------------------------------------


def test_a_launch_is_listed_within_the_lag_and_not_before() -> None:
    yard = a_yard(Habits(list_lag=(20.0, 20.0), moves=False))
    machine = yard.rent()
    yard.clock.pass_by(19.9)
    assert yard.fleet.listed(yard.tenant) == []
    assert yard.fleet.get(yard.tenant, machine.id) is None
    yard.clock.pass_by(0.2)

    assert yard.fleet.listed(yard.tenant) == [machine]
    assert yard.fleet.get(yard.tenant, machine.id) is machine


def test_a_long_lag_hides_a_machine_that_costs() -> None:
    yard = a_yard()
    machine = yard.rent(CloudFault.LIST_LAGS)
    yard.clock.pass_by(LONG_LAG - timedelta(seconds=1))

    assert yard.fleet.listed(yard.tenant) == []
    assert yard.bill() > 0
    yard.clock.pass_by(2)
    assert yard.fleet.listed(yard.tenant) == [machine]


def test_other_accounts_and_other_tools_are_told_apart() -> None:
    yard = a_yard()
    other = yard.fleet.accounts.other_than("us")
    yard.fleet.add_foreign(yard.tenant, 7)  # more than is in stock
    mine = yard.rent()

    assert yard.fleet.listed(other) == []
    assert yard.fleet.get(other, mine.id) is None
    listed = yard.fleet.listed(yard.tenant)
    assert (len(listed), sum(machine.foreign for machine in listed)) == (8, 7)


# -- a machine's life --------------------------------------------------------------------------------------------------


def a_day_later(cloud_fault: CloudFault) -> SimulatedMachine:
    yard = a_yard()
    machine = yard.rent(cloud_fault)
    yard.clock.pass_by(24 * HOUR)
    yard.fleet.advance()
    return machine


LIVES: list[tuple[CloudFault, Callable[[SimulatedMachine], bool]]] = [
    (CloudFault.STUCK, lambda machine: machine.phase is Phase.STARTING),
    (CloudFault.NO_ADDRESS, lambda machine: machine.phase is Phase.RUNNING and machine.addressless),
    (CloudFault.OUTBID, lambda machine: machine.phase is Phase.STOPPED and machine.interrupted),
    (CloudFault.OFFLINE, lambda machine: machine.phase is Phase.LOST),
    (CloudFault.SOLD_TWICE, lambda machine: machine.phase is Phase.LOST),
    (CloudFault.PREEMPTED, lambda machine: machine.phase is Phase.GONE and machine.interrupted),
    (CloudFault.VANISHED, lambda machine: machine.phase is Phase.GONE),
]


@pytest.mark.parametrize(("cloud_fault", "became"), LIVES, ids=[str(cloud_fault) for cloud_fault, _ in LIVES])
def test_each_fault_of_a_life_happens(cloud_fault: CloudFault, became: Callable[[SimulatedMachine], bool]) -> None:
    assert became(a_day_later(cloud_fault))


def test_a_machine_boots_when_its_shelf_says() -> None:
    yard = a_yard()
    machine = yard.rent()
    yard.clock.pass_by(69)
    yard.fleet.advance()
    assert machine.phase is Phase.STARTING
    yard.clock.pass_by(72)
    yard.fleet.advance()

    assert machine.phase is Phase.RUNNING


def test_an_outbid_machine_comes_back_when_its_bid_wins_again() -> None:
    yard = a_yard(Habits(list_lag=(0.0, 0.0)))
    machine = yard.rent(spot=True, bid_microusd=int(1.1 * DOLLAR))
    yard.fleet.reprice("h100@here", 3 * DOLLAR, 2 * DOLLAR)
    yard.clock.pass_by(MARKET_STEP)
    yard.fleet.advance()
    assert (machine.phase, machine.interrupted) == (Phase.STOPPED, True)
    assert machine.charged_microusd == machine.idle_rate_microusd
    yard.fleet.reprice("h100@here", 3 * DOLLAR, DOLLAR // 2)
    yard.clock.pass_by(3 * MARKET_STEP)
    yard.fleet.advance()

    assert (machine.phase, machine.interrupted) == (Phase.RUNNING, False)
    assert machine.charged_microusd == int(1.1 * DOLLAR)


def test_where_an_outbid_deletes_the_machine_is_gone() -> None:
    yard = a_yard(Habits(list_lag=(0.0, 0.0), outbid_deletes=True, moves=False))
    machine = yard.rent(spot=True, bid_microusd=DOLLAR)
    yard.fleet.interrupt(machine, yard.clock.now())

    assert (machine.phase, machine.interrupted) == (Phase.GONE, True)
    assert yard.fleet.listed(yard.tenant) == []


def test_listeners_hear_every_turn_of_a_life_in_order() -> None:
    yard = a_yard()
    heard: list[tuple[Phase, Phase]] = []
    yard.fleet.listen(lambda machine, before: heard.append((before, machine.phase)))
    machine = yard.rent()
    yard.clock.pass_by(HOUR)
    yard.fleet.end(machine)
    yard.clock.pass_by(HOUR)
    yard.fleet.advance()

    assert heard == [
        (Phase.GONE, Phase.STARTING),
        (Phase.STARTING, Phase.RUNNING),
        (Phase.RUNNING, Phase.ENDING),
        (Phase.ENDING, Phase.GONE),
    ]


# -- equal seeds -------------------------------------------------------------------------------------------------------


def a_week(seed: int, *, asked_every: timedelta = HOUR) -> list[tuple[object, ...]]:
    yard = a_yard(Habits(), seed=seed)
    for cloud_fault in (None, CloudFault.OUTBID, CloudFault.OFFLINE):
        yard.rent(
            cloud_fault,
            spot=cloud_fault is CloudFault.OUTBID,
            bid_microusd=DOLLAR if cloud_fault is CloudFault.OUTBID else None,
        )
    for _ in range(timedelta(days=7) // asked_every):
        yard.clock.pass_by(asked_every)
        yard.fleet.advance()
    machines = [(each.id, each.phase, each.running_at) for each in yard.fleet.machines.values()]
    stands = [(stand.hourly_microusd, stand.spot_microusd, stand.stock) for stand in yard.fleet.selling()]
    return [*machines, *stands, (yard.bill(),)]


def test_equal_seeds_give_equal_weeks() -> None:
    assert a_week(7) == a_week(7)
    assert a_week(7) != a_week(8)


def test_a_week_does_not_depend_on_how_often_it_is_looked_at() -> None:
    assert a_week(7, asked_every=timedelta(minutes=1)) == a_week(7, asked_every=timedelta(days=7))


def test_a_clock_that_jumps_back_breaks_nothing() -> None:
    yard = a_yard(Habits(list_lag=(0.0, 0.0)))
    yard.rent()
    yard.clock.pass_by(HOUR)
    before = yard.bill()
    yard.clock.seconds -= 1_800

    assert 0 <= yard.bill() <= before
    assert len(yard.fleet.listed(yard.tenant)) == 1


# -- faults -----------------------------------------------------------------------------------------------------------


def test_an_aimed_fault_befalls_its_verb_once() -> None:
    cloud_faults = CloudFaults(a_yard().fleet._luck)
    cloud_faults.aim(CloudFault.ERROR, CloudVerb.LIST)

    assert cloud_faults.draw(CloudVerb.LAUNCH) is None
    assert cloud_faults.draw(CloudVerb.LIST) is CloudFault.ERROR
    assert cloud_faults.draw(CloudVerb.LIST) is None
    assert cloud_faults.seen == {CloudFault.ERROR: 1}


def test_every_fault_says_what_it_can_befall() -> None:
    assert list(WHERE) == list(CloudFault)


def test_a_fault_cannot_be_aimed_at_what_it_cannot_befall() -> None:
    with pytest.raises(AssertionError):
        CloudFaults(a_yard().fleet._luck).aim(CloudFault.LIST_GONE, CloudVerb.LAUNCH)
