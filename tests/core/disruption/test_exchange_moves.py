"""Candidates of one exchange move together: begun, kept free of pods and given up as a whole, drained one by one."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.core.disruption.exchange_worlds import SERVING
from tests.core.disruption.machines import a_machine, moving
from tests.core.disruption.test_moves import a_budget, only, seen
from tests.core.pools.builders import a_condition, ago, an_order, on_node
from tgp.core.disruption.candidates import HELD_FOR, begins_at
from tgp.core.disruption.causes import UNDERUTILIZED, DisruptionCause, FoundExchange, NoCause, cause_of
from tgp.core.disruption.move_steps import Delete, OrderReplacements, Refit, Say, SetTaint, TakeBack, WriteDown
from tgp.core.disruption.moves import next_moves, to_plan
from tgp.core.model.object_key import ObjectKey

POLICY = {"consolidationPolicy": "WhenEmptyOrUnderutilized", "budgets": [{"nodes": "100%"}]}
KEYS = (ObjectKey("default", "r1"), ObjectKey("default", "r2"))
FOUND = FoundExchange("2 machines for 1 cheap one", KEYS, 500_000)
HERE = dict.fromkeys(KEYS, Refit())


def a_candidate(name, **rest):
    return replace(a_machine(name, idle=None, pods=a_pod_on(name), **rest), exchange=FOUND)


def a_pod_on(name, **rest):
    return (on_node(f"pod-{name}", f"node-{name}", **{"labels": {"app": "x"}, "owners": SERVING, **rest}),)


def under_way(name, **rest):
    rest = {"taint": "PreferNoSchedule", "pods": a_pod_on(name), **rest}
    return moving(name, UNDERUTILIZED, idle=None, **rest)


def steps(*machines, refits=HERE, **rest):
    return next_moves(seen(*machines, disruption=rest.pop("disruption", POLICY), refits=refits, **rest))


def test_both_begin_together_under_one_name():
    begun = steps(a_candidate("r1"), a_candidate("r2"))

    assert [type(step) for step in begun] == [WriteDown, WriteDown]
    assert begun[0].move == begun[1].move
    assert to_plan(seen(a_candidate("r1"), a_candidate("r2"), disruption=POLICY)) == KEYS


def test_a_later_look_at_the_same_records_begins_the_same_move():
    """The first of them may be written already, and not be seen yet."""
    looked = seen(a_candidate("r1"), a_candidate("r2"), disruption=POLICY, refits=HERE)
    later = next_moves(replace(looked, now=looked.now + timedelta(minutes=2)))
    assert {step.move for step in (*next_moves(looked), *later)} == {later[0].move}


def test_one_whose_record_was_not_written_joins_the_move_of_the_other():
    late = steps(moving("r1", UNDERUTILIZED, marked=False, pods=a_pod_on("r1"), idle=None), a_candidate("r2"))
    exchange = replace(moving("r1", marked=False, pods=a_pod_on("r1"), idle=None), exchange=FOUND)

    assert all(not isinstance(step, WriteDown) for step in late), "the first one has no cause any more"
    (joined,) = [step for step in steps(exchange, a_candidate("r2")) if isinstance(step, WriteDown)]
    assert joined.move == "m1"


@pytest.mark.parametrize(
    ("other", "rest"),
    [
        (a_candidate("r2", annotations={"tgp.io/do-not-disrupt": "true"}), {}),
        (a_candidate("r2"), {"budgets": (a_budget(),)}),
        (a_candidate("r2"), {"disruption": {**POLICY, "budgets": [{"nodes": 0}]}}),
        (a_candidate("r2"), {"refits": dict.fromkeys(KEYS, Refit(too_little="saves nothing"))}),
        (a_candidate("r2"), {"refits": dict.fromkeys(KEYS, Refit(unserved="no offer", limited=True))}),
    ],
)
def test_neither_begins_where_something_forbids_one_of_them(other, rest):
    found = steps(a_candidate("r1"), other, **rest)

    assert [type(step) for step in found] == [Say, Say]
    assert all(step.update.status is False for step in found)


def test_neither_begins_where_the_other_is_gone_or_protected_by_its_policy():
    assert steps(a_candidate("r1")) == ()
    assert steps(a_candidate("r1"), a_candidate("r2"), disruption={"consolidationPolicy": "WhenEmpty"}) == ()


def test_one_of_them_orders_for_all():
    refits = dict.fromkeys(KEYS, Refit((an_order(),)))
    found = steps(under_way("r1"), under_way("r2"), refits=refits)

    assert [type(step) for step in found] == [OrderReplacements, Say]


def test_both_are_kept_free_of_pods_at_the_same_time():
    """Or pods that are evicted from one would be bound to the next."""
    late = steps(under_way("r1"), under_way("r2", taint=""))
    assert [(step.machine.record.key.name, step.effect) for step in late] == [("r2", "PreferNoSchedule")]
    both = steps(under_way("r1"), under_way("r2"))
    assert [step.effect for step in both if isinstance(step, SetTaint)] == ["NoSchedule", "NoSchedule"]


def test_they_are_drained_one_by_one():
    hard = {"taint": "NoSchedule"}
    first = steps(under_way("r1", **hard), under_way("r2", **hard))
    assert [type(step) for step in first] == [Delete, Say]
    waiting = steps(under_way("r1", deleting=True, **hard), under_way("r2", **hard))
    assert [type(step) for step in waiting] == [Say]
    drained = steps(under_way("r1", deleting=True, taint="NoSchedule", pods=()), under_way("r2", **hard))
    assert [type(step) for step in drained] == [Delete]


@pytest.mark.parametrize("said", [{"annotations": {"tgp.io/do-not-disrupt": "true"}}, {"owners": ()}])
def test_what_one_is_given_up_for_all_are(said):
    """A pod that no controller would create again may have come since the search."""
    found = steps(under_way("r1"), under_way("r2", pods=a_pod_on("r2", **said)))

    assert [type(step) for step in found] == [TakeBack, TakeBack]
    assert all(step.retry for step in found)


def test_replacements_stay_while_a_candidate_is_drained():
    spare = {"m1": (a_machine("new", idle=None),)}
    names = {"tgp.io/replaced-by": "new"}
    back = steps(under_way("r1", annotations=names), replacements=spare, refits={KEYS[0]: Refit(unserved="none")})
    assert [each.record.key.name for each in back[0].unused] == ["new"]
    leaving = under_way("r2", annotations=names, taint="NoSchedule", deleting=True)
    back = steps(
        under_way("r1", annotations=names), leaving, replacements=spare, refits={KEYS[0]: Refit(unserved="none")}
    )
    assert [step.unused for step in back] == [()]


def test_once_replacements_are_bought_a_smaller_saving_gives_nothing_up():
    names = {"tgp.io/replaced-by": "new"}
    worthless = dict.fromkeys(KEYS, Refit(too_little="saves nothing"))
    machines = [under_way(name, annotations=names) for name in ("r1", "r2")]
    bought = {"m1": (a_machine("new", conditions=[a_condition("Initialized")]),)}
    assert {type(step) for step in steps(*machines, refits=worthless, replacements=bought)} == {SetTaint}
    assert {type(step) for step in steps(under_way("r1"), under_way("r2"), refits=worthless)} == {TakeBack}


def test_a_move_goes_on_by_what_its_condition_says():
    """The search that found it may be forgotten: by a new process, or because it is no candidate any more."""
    pool = seen(disruption=POLICY).pools[0].value
    cause = cause_of(under_way("r1"), pool, ago())
    assert cause == DisruptionCause(UNDERUTILIZED, "so")
    assert isinstance(cause_of(a_machine("r1", idle=None, pods=a_pod_on("r1")), pool, ago()), NoCause)


def test_a_saving_that_has_not_held_for_long_is_told_once_and_begins_nothing():
    told = replace(a_machine("r1", idle=None, pods=a_pod_on("r1")), unproven="saves $1/h", too_little="saves $0.01/h")
    said = only(seen(told, disruption=POLICY))
    assert (said.update.status, said.update.reason, said.update.message) == (False, "SavingUnproven", "saves $1/h.")
    again = a_machine(
        "r1", idle=None, pods=a_pod_on("r1"), conditions=[a_condition("Disrupted", "False", "SavingUnproven")]
    )
    assert next_moves(seen(replace(again, unproven="saves $2/h"), disruption=POLICY)) == ()


def test_an_exchange_begins_when_the_saving_of_each_machine_has_held_for_long_enough():
    one, other, now = *KEYS, ago()
    assert begins_at(KEYS, {}, now) == now + HELD_FOR
    assert begins_at((one,), {one: now - HELD_FOR}, now) == now
    since = {one: now - HELD_FOR, other: now - timedelta(minutes=10)}
    assert begins_at(KEYS, since, now) == now + HELD_FOR - timedelta(minutes=10)


def test_a_saving_that_is_too_little_is_told_once_whatever_the_sum():
    told = replace(a_machine("r1", idle=None, pods=a_pod_on("r1")), too_little="saves $0.01/h")
    said = only(seen(told, disruption=POLICY))
    assert (said.update.status, said.update.reason, said.update.message) == (
        False,
        "Unconsolidatable",
        "saves $0.01/h.",
    )
    again = a_machine(
        "r1", idle=None, pods=a_pod_on("r1"), conditions=[a_condition("Disrupted", "False", "Unconsolidatable")]
    )
    assert next_moves(seen(replace(again, too_little="saves $0.02/h"), disruption=POLICY)) == ()


INTO_ROOM = replace(FOUND, candidates=KEYS[:1], saving_microusd=105_000, buys=False)


def for_room(refit, machine=None):
    machine = machine or a_machine("r1", idle=None, pods=a_pod_on("r1"))
    machine = replace(machine, exchange=INTO_ROOM)
    (step,) = steps(machine, refits={KEYS[0]: refit})
    return step


def test_an_exchange_for_room_that_is_there_begins_at_once():
    assert isinstance(for_room(Refit()), WriteDown)


def test_what_would_be_bought_where_that_room_is_gone_waits_for_the_next_search():
    """A saving at market prices has to hold for an hour first."""
    step = for_room(Refit((an_order(),)))

    assert (step.update.status, step.update.reason) == (False, "SavingUnproven")
    assert step.update.message == (
        "Underutilized: Its pod would fit on other nodes, which saves $0.11/h; not now: it would need a new machine. "
        "The next search looks for another exchange."
    )


def test_where_that_room_is_gone_and_nothing_can_be_bought_the_message_does_not_contradict_itself():
    step = for_room(Refit(unserved="no offer fits"))

    assert (step.update.status, step.update.reason) == (False, "NoReplacement")
    assert step.update.message == f"Underutilized: {INTO_ROOM.message}. That is not possible now: no offer fits."


def test_what_would_be_bought_there_and_saves_too_little_is_told_in_one_sentence():
    step = for_room(Refit((an_order(),), too_little="saves $0.00404/h"))

    assert (step.update.status, step.update.reason) == (False, "Unconsolidatable")
    assert step.update.message == (
        "Underutilized: Its pod would fit on other nodes, which saves $0.11/h; not now: it would need a new machine, "
        "and saves less than 5 %."
    )


def test_a_move_into_room_that_is_taken_meanwhile_is_given_up_and_buys_nothing():
    step = for_room(Refit((an_order(),)), under_way("r1"))

    assert isinstance(step, TakeBack)
