"""A machine that is never usable breeds no further one for a while; a disagreement with the scheduler none at all."""

from datetime import timedelta

from tests.core.pools.builders import NOW, a_pod, a_request, ago, an_attempt, written
from tgp.core.model.pod import OwnerRef
from tgp.core.pools.runaway import DISAGREED_AFTER, DISAGREED_FOR, PAUSES, Disagreements, Runaways, unusable_machines

UID = "uid-pod"


def failed(number=1, *, minutes=0.0, **rest):
    ended = an_attempt(
        number, outcome="Failed", launchedAt=written(ago(hours=1)), endedAt=written(ago(minutes=minutes)), **rest
    )
    return a_request(f"train-{number}", phase="Failed", attempts=[{**ended, "token": f"token-{number}"}])


def refused(runaways, now=NOW):
    return runaways.refusals([UID, "uid-other"], now)


def test_after_each_unusable_machine_the_pause_is_longer():
    runaways = Runaways()
    for count, pause in enumerate(PAUSES, 1):
        runaways.learn(failed(count), ())
        found = refused(runaways)
        assert found.until == NOW + pause
        assert set(found.refused) == {UID}

    assert "3 machines" in refused(runaways).refused[UID]


def test_after_a_pause_another_machine_may_be_tried_and_another_offer():
    runaways = Runaways()
    runaways.learn(failed(minutes=6), ())
    found = refused(runaways)

    assert found.refused == {}
    assert found.not_for == {UID: frozenset({"simulated/t4.1/us-west-1/on-demand"})}


def test_after_the_last_pause_the_count_begins_again():
    runaways = Runaways()
    for count in range(1, 4):
        runaways.learn(failed(count), ())

    assert refused(runaways, NOW + PAUSES[-1]).not_for == {}


def test_all_pods_of_the_machine_wait_not_only_its_anchor():
    runaways = Runaways()
    runaways.learn(failed(), ["uid-other"])

    assert set(refused(runaways).refused) == {UID, "uid-other"}


def test_learning_twice_counts_once():
    runaways = Runaways()
    for _ in range(3):
        runaways.learn(failed(), ())

    assert refused(runaways).until == NOW + PAUSES[0]


def test_only_what_was_paid_and_never_usable_counts():
    assert unusable_machines(a_request(attempts=[an_attempt(outcome="SoldOut", endedAt=written(NOW))])) == []
    assert unusable_machines(a_request(attempts=[an_attempt(outcome="Failed", endedAt=written(NOW))])) == []
    assert len(unusable_machines(failed())) == 1


def test_pods_that_are_gone_are_forgotten():
    runaways = Runaways()
    runaways.learn(failed(), ())
    runaways.refusals([], NOW)

    assert refused(runaways).refused == {}


def disagreeing(*, bought):
    pod, found = a_pod(), Disagreements()
    for now in (NOW, NOW + DISAGREED_AFTER):
        found.learn({UID: "n1"}, {UID: pod}, {"n1": bought}, now)
    return pod, found, NOW + DISAGREED_AFTER


def test_a_node_where_the_scheduler_refuses_a_pod_stops_counting_for_it():
    _, found, now = disagreeing(bought=False)

    assert found.refused_at("n1", NOW + timedelta(minutes=4)) == frozenset()
    assert found.refused_at("n1", now) == {UID}
    assert found.refusals([a_pod()]) == {}


def test_nothing_more_is_bought_for_pods_that_are_refused_on_a_machine_of_ours():
    pod, found, now = disagreeing(bought=True)

    assert set(found.refusals([pod])) == {UID}
    found.learn({}, {UID: pod}, {"n1": True}, now + DISAGREED_FOR)
    assert found.next_change(now) is None or found.next_change(now) > now


def test_the_verdict_is_about_all_pods_of_the_template():
    owner = (OwnerRef("ReplicaSet", "web", "rs-1", controller=True),)
    found, one = Disagreements(), a_pod(owners=owner)
    for now in (NOW, NOW + DISAGREED_AFTER):
        found.learn({UID: "n1"}, {UID: one}, {"n1": True}, now)

    assert found.refusals([a_pod("later", owners=owner)]) != {}


def test_a_pod_that_was_bound_is_no_disagreement():
    found = Disagreements()
    found.learn({UID: "n1"}, {UID: a_pod()}, {"n1": True}, NOW)
    found.learn({}, {}, {"n1": True}, NOW + DISAGREED_AFTER)

    assert found.refused_at("n1", NOW + DISAGREED_AFTER) == frozenset()
