"""The orphan collector: machines without an owner are terminated, slowly, never for one list or a stale cache."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.core.controllers.account_access import (
    CLUSTER,
    LAG,
    VULTR,
    AccountSetup,
    EvenLuck,
    Provider,
    a_class,
    a_machine,
    a_record,
    a_token,
    an_attempt,
)
from tgp.controllers.instances import orphan_collector
from tgp.controllers.instances.cache import InstanceSnapshot
from tgp.controllers.instances.orphan_collector import (
    GRACE,
    MOST_ENDS,
    NONE_FOR,
    STUCK_AFTER,
    STUCK_FOR,
    OrphanCollector,
)
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.core.inventory.orphan_evidence import ServerState
from tgp.core.model.attempts import FINALIZER
from tgp.core.model.cloud_errors import CloudBusy, OutcomeUnknown
from tgp.core.model.facts import (
    ConditionChanged,
    OrphanFound,
    OrphanGone,
    OrphanTerminated,
    OrphanTerminationFailing,
    SweepHalted,
)
from tgp.core.model.secret import Secret
from tgp.ports.cluster import ClusterBusy


async def test_a_machine_without_a_request_is_terminated():
    """Its finalizer was stripped by force; the bill is the truth."""
    setup = AccountSetup(Provider(a_machine(1)))
    await setup.turn()
    await setup.turn(after=GRACE)

    assert setup.provider.ended == ["i-1-1"]
    assert [OrphanFound(VULTR.name, "i-1-1", a_token(1), "no request has the uid in its token")] == setup.facts(
        OrphanFound
    )


async def test_an_orphan_is_returned_when_it_is_shown_absent_twice_a_lag_apart():
    setup = AccountSetup(Provider(a_machine(1)))
    await setup.turns(2, every=GRACE)
    await setup.turn(after=15)
    assert setup.facts(OrphanGone) == []
    assert [orphan.instance.id for orphan in setup.collector.orphans_of(VULTR.name)] == ["i-1-1"]

    await setup.turn(after=LAG.total_seconds())
    assert [OrphanGone(VULTR.name, "i-1-1", a_token(1))] == setup.facts(OrphanGone)
    assert setup.collector.orphans_of(VULTR.name) == ()


async def test_one_list_is_not_enough_and_two_in_a_hurry_are_not_either():
    setup = AccountSetup(Provider(a_machine(1)))
    await setup.turn()
    await setup.turn(after=GRACE - 1)

    assert setup.provider.ended == []


async def test_the_next_look_comes_when_the_orphan_is_ripe():
    setup = AccountSetup(Provider(a_machine(1)))

    assert await setup.turn() == pytest.approx(GRACE, abs=0.2)


@pytest.mark.parametrize("luck", [0.0, 0.5, 0.99])
async def test_no_look_is_wasted_on_an_orphan_that_is_all_but_ripe(luck, monkeypatch):
    """While a machine starts there, lists come about twice within the grace time of an orphan."""
    monkeypatch.setattr(EvenLuck, "jitter", lambda _self: luck)
    setup = AccountSetup(Provider(a_machine(1)))
    setup.hold(a_record(2, an_attempt(2)))
    pause = await setup.turn()
    pause = await setup.turn(after=pause)
    await setup.turn(after=pause)

    assert setup.provider.ended == ["i-1-1"]
    assert setup.clock.seconds <= 1000.0 + GRACE * 1.1


async def test_the_requests_are_listed_again_after_the_provider_was():
    """The reservation was written, and the cache did not show it yet."""
    setup = AccountSetup(Provider(a_machine(1)))
    await setup.turn()
    setup.late = [a_record(1, an_attempt(1))]
    await setup.turn(after=GRACE)

    assert setup.refreshes == 1
    assert setup.provider.ended == []
    assert setup.journal == []
    assert setup.collector.orphans_of(VULTR.name) == ()


@pytest.mark.parametrize("outcome", [ClusterBusy("503"), None])
async def test_without_a_fresh_view_of_requests_nothing_is_ended(outcome, monkeypatch):
    """The API server refuses, or does not answer at all."""
    setup = AccountSetup(Provider(a_machine(1)))
    monkeypatch.setattr(orphan_collector, "REFRESHED_WITHIN", 0.0)

    async def refresh():
        if outcome is not None:
            raise outcome
        await asyncio.Event().wait()

    setup.refresh = refresh
    setup.__post_init__()
    await setup.turns(3, every=GRACE)

    assert setup.provider.ended == []


async def test_owned_machines_and_strangers_stay():
    setup = AccountSetup(
        Provider(a_machine(1), a_machine(2, token="pet"), a_machine(3, token=a_token(3, 1, "9876543210")))
    )
    setup.hold(a_record(1, an_attempt(1)))
    await setup.turns(5, every=GRACE)

    assert setup.provider.ended == []


async def test_an_older_attempt_and_a_twin_are_terminated():
    setup = AccountSetup(Provider(a_machine(1, 1), a_machine(1, 2), a_machine(1, 2, id="twin")))
    record = a_record(1, an_attempt(1, 1, endedAt="2026-01-05T10:00:00Z"), an_attempt(1, 2, instanceId="i-1-2"))
    setup.hold(record)
    await setup.turns(2, every=GRACE)

    assert setup.provider.ended == ["i-1-1", "twin"]


async def test_a_failed_list_between_two_good_ones_ends_nothing_by_itself():
    setup = AccountSetup(Provider(a_machine(1)))
    await setup.turn()
    setup.provider.error = CloudBusy("busy")
    await setup.turns(3, every=300)

    assert setup.provider.ended == []


async def test_a_list_that_lied_ends_nothing():
    setup = AccountSetup(Provider(a_machine(1), a_machine(2)))
    setup.hold(a_record(1, an_attempt(1, instanceId="i-1-1")))
    setup.presence(1)
    await setup.turn(after=1)
    setup.provider.hidden = {"i-1-1"}
    await setup.turns(5, every=GRACE)

    assert setup.provider.ended == []


async def test_too_many_at_once_stop_the_sweep_and_it_shows():
    """A wrong view of the requests is more likely than so many orphans."""
    setup = AccountSetup(Provider(*(a_machine(number) for number in range(1, 6))))
    setup.hold(a_record(1, an_attempt(1)), a_record(2, an_attempt(2)))
    await setup.turns(5, every=GRACE)

    assert setup.provider.ended == []
    assert [SweepHalted(VULTR.name, 3, 5)] == setup.facts(SweepHalted)
    assert "3 of 5 machines" in setup.collector.halted[VULTR.name]
    assert setup.announced.count(VULTR.name) == 2  # the first look, and the halt


async def test_a_halted_sweep_goes_on_once_few_are_left():
    """A user checked, and terminated or claimed them."""
    setup = AccountSetup(Provider(*(a_machine(number) for number in range(1, 6))))
    await setup.turns(3, every=GRACE)
    setup.hold(*(a_record(number, an_attempt(number)) for number in (1, 2, 3, 4)))
    await setup.turns(1, every=GRACE)

    assert setup.provider.ended == ["i-5-1"]
    assert setup.collector.halted == {}


async def test_an_end_is_asked_for_again_after_every_list_until_it_comes():
    setup = AccountSetup(Provider(a_machine(1)))
    setup.provider.unending = OutcomeUnknown("vultr answered 500")
    await setup.turn()
    assert await setup.turn(after=GRACE) == 15
    await setup.turns(2)

    assert setup.provider.ended == ["i-1-1"] * 3
    (orphan,) = setup.collector.orphans_of(VULTR.name)
    assert orphan.why == "no request has the uid in its token; termination requested 3 times: vultr answered 500"
    assert len(setup.facts(OrphanFound)) == 1


async def test_only_so_many_begin_to_end_in_a_minute():
    owned, lost = range(1, 61), range(61, 73)
    setup = AccountSetup(Provider(*(a_machine(number) for number in (*owned, *lost))))
    setup.hold(*(a_record(number, an_attempt(number)) for number in owned))
    await setup.turns(2, every=GRACE)
    assert len(setup.provider.ended) == MOST_ENDS

    await setup.turns(2, every=GRACE)
    assert len(setup.provider.ended) == len(lost)


async def test_a_replica_that_only_looks_ends_nothing_and_says_what_it_sees():
    setup = AccountSetup(Provider(a_machine(1)), observing=True)
    await setup.turns(4, every=GRACE)

    assert setup.provider.ended == []
    assert len(setup.facts(OrphanFound)) == 1


async def test_a_machine_that_is_claimed_while_it_was_suspected_stays():
    setup = AccountSetup(Provider(a_machine(1)))
    await setup.turn()
    setup.hold(a_record(1, an_attempt(1)))
    await setup.turns(3, every=GRACE)

    assert setup.provider.ended == []
    assert setup.collector.orphans_of(VULTR.name) == ()


async def test_an_orphan_that_is_still_listed_or_listed_again_is_not_returned():
    setup = AccountSetup(Provider(a_machine(1)))
    await setup.turns(2, every=GRACE)
    await setup.turn(after=15)
    setup.provider.machines["i-1-1"] = a_machine(1)  # lists of two minds
    await setup.turn(after=LAG.total_seconds())
    await setup.turn(after=LAG.total_seconds() - 1)
    assert setup.facts(OrphanGone) == []

    await setup.turn(after=LAG.total_seconds())
    assert len(setup.facts(OrphanGone)) == 1


async def test_a_key_of_another_account_returns_nothing():
    setup = AccountSetup(Provider(a_machine(1)))
    setup.provider.unending = OutcomeUnknown("vultr answered 500")
    await setup.turns(2, every=GRACE)
    setup.provider.account, setup.provider.machines = "other", {}
    setup.secret_reader.secrets["keys"] = {"VULTR": Secret("k2")}
    await setup.turns(5, every=LAG.total_seconds())

    assert setup.facts(OrphanGone) == []
    assert [orphan.instance.id for orphan in setup.collector.orphans_of(VULTR.name)] == ["i-1-1"]


async def test_a_replica_that_only_looks_claims_no_return():
    setup = AccountSetup(Provider(a_machine(1)), observing=True)
    await setup.turns(3, every=GRACE)
    setup.provider.machines.clear()
    await setup.turns(3, every=LAG.total_seconds())

    assert setup.facts(OrphanGone) == []
    assert setup.collector.orphans_of(VULTR.name) == ()


# -- not a single request --------------------------------------------------------------------------------------------


async def test_where_no_request_is_listed_at_all_it_has_to_be_so_for_a_minute():
    """A new leader's first list is an empty 200: everything it sees at a provider looks like an orphan."""
    setup = AccountSetup(Provider(a_machine(1)), bystander=False)
    await setup.turn()
    await setup.turns(3, every=15)
    assert setup.provider.ended == []

    setup.late = [a_record(1, an_attempt(1))]  # the lie is over
    await setup.turns(10, every=15)
    assert setup.provider.ended == []
    assert setup.journal == []


async def test_where_there_is_no_request_for_a_minute_the_orphan_is_terminated_all_the_same():
    """Removing the finalizer of the last request by force must not leave a machine billed."""
    setup = AccountSetup(Provider(a_machine(1)), bystander=False)
    assert await setup.turn() == pytest.approx(NONE_FOR, abs=0.2)
    await setup.turn(after=NONE_FOR)

    assert setup.refreshes == 2
    assert setup.provider.ended == ["i-1-1"]


async def test_a_request_that_showed_up_in_between_begins_the_minute_anew():
    """Empty, whole, empty again: a server that answers so is not believed on two of the three."""
    setup = AccountSetup(Provider(a_machine(1)), bystander=False)
    await setup.turn()
    setup.clock.seconds += 30
    setup.poller.of_request(None, a_record(2))
    await setup.turn(after=30)
    assert setup.provider.ended == []

    await setup.turn(after=NONE_FOR - 5)
    assert setup.provider.ended == []
    await setup.turn(after=5)
    assert setup.provider.ended == ["i-1-1"]


async def test_a_list_that_failed_does_not_count_as_empty():
    setup = AccountSetup(Provider(a_machine(1)), bystander=False)
    refresh, failing = setup.refresh, [True]

    async def sometimes():
        if failing:
            raise ClusterBusy("503")
        await refresh()

    setup.refresh = sometimes
    setup.__post_init__()
    await setup.turns(3, every=NONE_FOR)
    failing.clear()
    await setup.turn(after=NONE_FOR)
    assert setup.provider.ended == []

    await setup.turn(after=NONE_FOR)
    assert setup.provider.ended == ["i-1-1"]


async def test_a_request_that_was_seen_once_is_asked_for_by_its_name():
    """It was there when this process began, and went before any provider was looked at."""
    setup = AccountSetup(Provider(a_machine(1)))
    record = a_record(1, an_attempt(1))
    setup.poller.of_request(None, record)
    setup.poller.of_request(record, None)
    setup.hidden = {record.key}
    await setup.turns(4, every=GRACE)
    assert setup.provider.ended == []
    assert record.key in setup.asked_for

    setup.hidden.clear()
    await setup.turn(after=GRACE)
    assert setup.provider.ended == ["i-1-1"]


async def test_where_a_list_leaves_a_user_out_only_those_go_whose_own_request_is_gone():
    """Of a list that is known to be wrong nothing else is believed either."""
    setup = AccountSetup(Provider(a_machine(1), a_machine(2), *(a_machine(number) for number in range(3, 20))))
    setup.hold(*(a_record(number, an_attempt(number)) for number in range(4, 20)))
    for number in (1, 2):
        setup.poller.of_request(None, a_record(number, an_attempt(number)))
    setup.hidden = {a_record(1).key}
    await setup.turns(4, every=GRACE)
    assert setup.provider.ended == ["i-2-1"]

    setup.hidden.clear()
    await setup.turn(after=GRACE)
    assert sorted(setup.provider.ended) == ["i-1-1", "i-2-1", "i-3-1"]


async def test_a_request_that_was_seen_and_is_gone_by_name_needs_no_minute():
    setup = AccountSetup(Provider(a_machine(1)), bystander=False)
    setup.poller.of_request(None, a_record(1, an_attempt(1)))
    await setup.turns(2, every=GRACE)

    assert setup.provider.ended == ["i-1-1"]


# -- many accounts ----------------------------------------------------------------------------------------------------


class ThreeAccounts:
    """Three providers, a machine at each, and one collector."""

    def __init__(self, *numbers, held=()):
        self.setup = AccountSetup(Provider(*(a_machine(number) for number in numbers)))
        self.setup.hold(*(a_record(number, an_attempt(number)) for number in held))
        self.machines = {f"box-{number}": a_machine(number) for number in numbers}
        self.collector = OrphanCollector(
            self.setup.instance_cache,
            self.setup.requests,
            classes=self.setup.classes,
            nodes=self.setup.nodes,
            evidence=self.setup,
            gate=LeaderGuard(None, observing=False),
            journal=self.setup.journal,
            clock=self.setup.clock,
        )

    async def sweep(self, after=0.0):
        self.setup.clock.seconds += after
        for access, machine in self.machines.items():
            snapshot = InstanceSnapshot("acme", self.setup.clock.seconds, (machine,))
            await self.collector.sweep(access, self.setup.provider, snapshot, CLUSTER)


async def test_machines_that_no_request_knows_are_counted_over_all_accounts():
    """Owned machines are an account each: three of them lost at once are three, not one and one and one."""
    accesses = ThreeAccounts(1, 2, 3)
    await accesses.sweep()
    await accesses.sweep(after=GRACE)

    assert accesses.setup.provider.ended == []
    assert {SweepHalted(f"box-{number}", 3, 3) for number in (1, 2, 3)} == set(accesses.setup.facts(SweepHalted))
    assert "3 of 3 machines at all providers together" in accesses.collector.halted["box-1"]


async def test_few_of_many_accounts_are_terminated():
    accesses = ThreeAccounts(1, 2, 3, held=[1])
    await accesses.sweep()
    await accesses.sweep(after=GRACE)

    assert sorted(accesses.setup.provider.ended) == ["i-2-1", "i-3-1"]


async def test_machines_of_requests_that_came_back_are_no_orphans_however_old_the_lists():
    """Two accounts were last swept with a wrong view of the requests."""
    accesses = ThreeAccounts(1, 2, 3)
    await accesses.sweep()
    accesses.setup.hold(a_record(2, an_attempt(2)), a_record(3, an_attempt(3)))
    accesses.machines = {"box-1": a_machine(1)}
    await accesses.sweep(after=GRACE)

    assert accesses.setup.provider.ended == ["i-1-1"]


# -- what does not end -------------------------------------------------------------------------------------------------

REFUSED = "termination requested 3 times: vultr answered 500"


async def test_an_orphan_that_does_not_end_is_reported_once_with_its_price():
    """No request reports it: without this it would cost unnoticed."""
    setup = AccountSetup(Provider(a_machine(1, hourly_microusd=1_670_000)))
    setup.provider.unending = OutcomeUnknown("vultr answered 500")
    await setup.turns(1 + STUCK_AFTER - 1, every=GRACE)
    assert setup.facts(OrphanTerminationFailing) == []
    await setup.turns(20, every=GRACE)

    assert [OrphanTerminationFailing(VULTR.name, "i-1-1", a_token(1), 3, REFUSED, 1_670_000)] == setup.facts(
        OrphanTerminationFailing
    )
    (stuck,) = setup.collector.stuck
    assert (stuck.access, stuck.instance.id, stuck.why) == (VULTR.name, "i-1-1", REFUSED)
    assert len(setup.provider.ended) == 22
    assert setup.announced.count(VULTR.name) == 2  # the first look, and that it does not end


async def test_what_does_not_end_is_asked_again_in_the_ordinary_polls():
    """Four requests a minute, for a month, do not help."""
    setup = AccountSetup(Provider(a_machine(1)))
    setup.provider.unending = OutcomeUnknown("vultr answered 500")
    pauses = [await setup.turn(after=GRACE) for _ in range(5)]

    assert pauses == [pytest.approx(GRACE, abs=0.2), 15, 15, 60, 60]


async def test_an_end_that_is_promised_and_does_not_come_is_reported_after_ten_minutes():
    setup = AccountSetup(Provider(a_machine(1)))
    setup.provider.unending = False  # it says yes
    await setup.turn()
    await setup.turns(int(STUCK_FOR / 60), every=60)
    assert setup.facts(OrphanTerminationFailing) == []
    await setup.turn(after=60)

    (fact,) = setup.facts(OrphanTerminationFailing)
    assert fact.why == "termination requested 11 times: the provider accepts it but still lists the machine"


async def test_an_orphan_that_ends_at_last_is_reported_no_more():
    setup = AccountSetup(Provider(a_machine(1)))
    setup.provider.unending = OutcomeUnknown("vultr answered 500")
    await setup.turns(5, every=GRACE)
    setup.provider.unending = None
    await setup.turns(3, every=LAG.total_seconds())

    assert len(setup.facts(OrphanGone)) == 1
    assert setup.collector.stuck == ()
    assert setup.announced.count(VULTR.name) >= 3


# -- a request whose status was lost, and many machines without a request ----------------------------------------------


def wiped(number):
    return replace(a_record(number), finalizers=(FINALIZER,))


async def test_the_machine_of_a_erased_request_stays_and_counts_against_limits():
    setup = AccountSetup(Provider(a_machine(1, hourly_microusd=1_000_000)))
    setup.hold(wiped(1))
    await setup.turns(20, every=GRACE)

    assert setup.provider.ended == []
    assert [one.id for one in setup.collector.unrecorded_at(VULTR.name)] == ["i-1-1"]
    assert setup.collector.any_unrecorded
    assert setup.collector.orphans_of(VULTR.name) == ()


async def test_machines_of_readable_requests_are_no_reason_to_halt():
    """Four statuses were erased; each request has a machine of an older attempt beside its newest."""
    numbers = (1, 2, 3, 4)
    setup = AccountSetup(Provider(*(a_machine(number, attempt) for number in numbers for attempt in (1, 2))))
    setup.hold(*(wiped(number) for number in numbers))
    await setup.turns(2, every=GRACE)

    assert sorted(setup.provider.ended) == [f"i-{number}-1" for number in numbers]
    assert setup.facts(SweepHalted) == []


SERVER = ServerState("kube-system-uid", 100)


class Halted:
    """Four machines of four, and no request: a small account whose requests were removed by force."""

    def __init__(self, **options):
        self.setup = AccountSetup(Provider(*(a_machine(number) for number in (1, 2, 3, 4))), **options)
        self.setup.server_state = SERVER
        self.setup.hold_class(a_class())
        self.setup.poller.of_request(None, a_record(1, an_attempt(1)))  # known by name; the others are not

    async def minutes(self, count):
        for _ in range(count):
            await self.setup.turn(after=60)

    @property
    def ended(self):
        return self.setup.provider.ended


async def test_a_halt_ends_by_itself_where_the_evidence_is_complete():
    """Ten minutes after the first check one machine goes, and a minute later one more; two are few enough."""
    halted = Halted()
    await halted.minutes(11)
    assert halted.ended == []
    assert len(halted.setup.facts(SweepHalted)) == 1

    await halted.minutes(1)
    assert halted.ended == ["i-1-1"]
    await halted.minutes(1)
    assert len(set(halted.ended)) == 2
    await halted.minutes(2)

    assert sorted(set(halted.ended)) == ["i-1-1", "i-2-1", "i-3-1", "i-4-1"]
    told = halted.setup.facts(OrphanTerminated)
    assert [(fact.instance_id, fact.left) for fact in told] == [("i-1-1", 3), ("i-2-1", 2)]
    told_classes = [fact for fact in halted.setup.facts(ConditionChanged) if fact.reason == "OrphanTerminated"]
    assert [fact.subject.key.name for fact in told_classes] == ["cheap", "cheap"]


async def go_back(halted):
    halted.setup.server_state = replace(SERVER, revision=99)


async def become_another(halted):
    halted.setup.server_state = replace(SERVER, uid="another")


async def fall_silent(halted):
    halted.setup.server_state = None
    await halted.minutes(1)
    halted.setup.server_state = SERVER


async def show_a_request(halted):
    """One of the four is there by its name: the list left it out."""
    halted.setup.hidden.add(a_record(1).key)
    await halted.minutes(1)
    halted.setup.hidden.clear()


@pytest.mark.parametrize("trouble", [go_back, become_another, fall_silent, show_a_request])
async def test_the_evidence_begins_again_where_the_api_server_contradicts_itself(trouble):
    halted = Halted()
    await halted.minutes(8)
    await trouble(halted)
    await halted.minutes(10)
    assert halted.ended == []

    await halted.minutes(10)
    assert len(set(halted.ended)) == 4


async def test_a_rewound_history_makes_the_evidence_begin_again():
    halted = Halted()
    await halted.minutes(11)
    halted.setup.collector.start_over()
    await halted.minutes(9)

    assert halted.ended == []


async def test_a_server_that_cannot_be_asked_keeps_every_machine():
    halted = Halted()
    halted.setup.server_state = None
    await halted.minutes(60)

    assert halted.ended == []


async def test_a_machine_of_an_older_attempt_goes_while_the_others_wait_for_evidence():
    halted = Halted()
    halted.setup.provider.machines["old"] = a_machine(5, 1, id="old")
    halted.setup.hold(a_record(5, an_attempt(5, 1, endedAt="2026-01-05T10:00:00Z")))
    await halted.minutes(3)

    assert halted.ended == ["old"]
