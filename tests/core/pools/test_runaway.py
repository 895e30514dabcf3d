"""Machines that serve no pod are few for each of them; a disagreement with the scheduler buys none at all."""

from datetime import timedelta

import msgspec
import pytest

from tests.core.pools.builders import (
    GIB,
    GPU,
    NOW,
    POOL_UID,
    a_node,
    a_pod,
    a_request,
    ago,
    an_attempt,
    on_node,
    written,
)
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Taint
from tgp.core.pools import runaway
from tgp.core.pools.orders import family
from tgp.core.pools.runaway import (
    DISAGREED_AFTER,
    DISAGREED_FOR,
    KEPT_FOR,
    PAUSES,
    SCHEDULED_WITHIN,
    Disagreements,
    ReadyNode,
    Runaways,
    Serving,
    UnusableMachine,
    failed_machines,
    left_unused,
    line_of,
    read_line,
    unused_machine,
    unused_since,
)
from tgp.core.requests.drain import DISRUPTED

UID = "uid-pod"
OWNER = (OwnerRef("ReplicaSet", "web", "rs-1", controller=True),)


def a_machine(number=1, *, ended_at=NOW, pods=None, **rest):
    usual = {
        "token": f"token-{number}",
        "namespace": "default",
        "request": f"train-{number}",
        "offer": f"offer-{number}",
    }
    known = {UID: UID} if pods is None else pods
    return UnusableMachine(**{**usual, "ended_at": ended_at, "microusd": 100_000, "what": "x", "pods": known, **rest})


def runaways_with(*machines, now=NOW):
    found = Runaways()
    for machine in machines:
        found.learn(machine, now)
    return found


def refusals(runaways, *pods, now=NOW):
    return runaways.refusals({pod.uid: pod for pod in pods or (a_pod(), a_pod("other"))}, now)


def test_after_each_unusable_machine_the_pause_is_longer():
    runaways = Runaways()
    for count, pause in enumerate(PAUSES, 1):
        runaways.learn(a_machine(count), NOW)
        found = refusals(runaways)
        assert found.until == {UID: NOW + pause}
        assert set(found.refused) == {UID}


def test_the_pod_is_told_how_many_machines_what_they_cost_and_what_was_wrong():
    text = refusals(runaways_with(*(a_machine(count, what="has a taint") for count in range(3)))).refused[UID]

    assert text == (
        "MachinesUnusable: 3 machines bought for this pod did not run it (cost $0.30). The last one, "
        "GPURequest default/train-2, has a taint. No machine is bought for the pod before 2026-11-18T12:00:00Z, unless "
        "its template changes"
    )


def test_after_a_pause_another_machine_may_be_tried_and_another_offer():
    found = refusals(runaways_with(a_machine(ended_at=ago(minutes=6))))

    assert found.refused == {}
    assert found.not_for == {UID: frozenset({"offer-1"})}


def test_after_three_machines_one_is_tried_in_a_day():
    runaways = runaways_with(*(a_machine(count) for count in range(3)))
    later = NOW + PAUSES[-1]
    assert refusals(runaways, now=later).refused == {}

    runaways.learn(a_machine(4, ended_at=later), later)
    assert refusals(runaways, now=later).until == {UID: later + PAUSES[-1]}


def test_machines_of_other_days_are_forgotten():
    runaways = runaways_with(a_machine())
    runaways.forget((), {}, (), NOW + KEPT_FOR)
    assert len(runaways) == 0

    runaways.learn(a_machine(), NOW + KEPT_FOR)
    assert len(runaways) == 0


def test_only_the_newest_machines_are_remembered(monkeypatch):
    monkeypatch.setattr(runaway, "MOST_REMEMBERED", 3)
    many = [a_machine(number, ended_at=ago(seconds=number)) for number in range(5)]

    assert runaways_with(*many).machines() == tuple(many[:3])


def test_all_pods_of_the_machine_wait_not_only_its_anchor():
    runaways = runaways_with(a_machine(pods={UID: UID, "uid-other": "uid-other"}))

    assert set(refusals(runaways).refused) == {UID, "uid-other"}


def test_learning_twice_counts_once_and_the_cost_grows():
    runaways = runaways_with(a_machine(), a_machine(microusd=300_000), a_machine())

    assert refusals(runaways).until == {UID: NOW + PAUSES[0]}
    assert "$0.30" in refusals(runaways).refused[UID]


# -- pods that are created again ---------------------------------------------------------------------------------------


def test_a_pod_that_is_created_again_has_what_the_one_before_it_had():
    first, again = a_pod("web-1", owners=OWNER), a_pod("web-2", owners=OWNER)
    runaways = runaways_with(a_machine(pods={first.uid: family(first)}))

    assert set(refusals(runaways, again).refused) == {again.uid}


@pytest.mark.parametrize(
    "change",
    [{"key": ObjectKey("other", "web-2")}, {"requests": Resources(2000, GIB)}],
    ids=["another namespace", "another template"],
)
def test_a_pod_of_another_template_begins_anew(change):
    first, other = a_pod("web-1", owners=OWNER), a_pod("web-2", **{"owners": OWNER, **change})
    runaways = runaways_with(a_machine(pods={first.uid: family(first)}))

    assert refusals(runaways, other).refused == {}


@pytest.mark.parametrize(
    "owner",
    [
        OwnerRef("ReplicaSet", "web", "rs-2", controller=True),
        OwnerRef("Job", "nightly-2", "job-2", controller=True),
        OwnerRef("Workflow", "flow-2", "flow-2", controller=True),
        None,
    ],
    ids=["rollout", "run of a CronJob", "workflow", "bare"],
)
def test_an_equal_pod_of_another_owner_has_what_the_one_before_it_had(owner):
    first, next_one = a_pod("web-1", owners=OWNER), a_pod("web-2", owners=(owner,) if owner is not None else ())
    runaways = runaways_with(a_machine(pods={first.uid: family(first)}))

    assert set(refusals(runaways, first, next_one).refused) == {first.uid, next_one.uid}


def test_of_many_machines_that_were_bought_at_once_a_few_fail_and_the_other_pods_go_on():
    one, other, served = (a_pod(f"web-{number}", owners=OWNER) for number in range(3))
    pods = {one.uid: family(one)}
    runaways = runaways_with(a_machine(pods=pods, launched_at=ago(minutes=9)))
    found = runaways.refusals({pod.uid: pod for pod in (one, other)}, NOW, {other.uid})
    assert set(found.refused) == {one.uid}, "the machine of the other one is on its way"

    running = msgspec.structs.replace(served, node="n1")
    runaways.forget([running], {"n1": Serving(ago(minutes=5))}, {one.uid, other.uid}, NOW)
    assert set(refusals(runaways, one, other).refused) == {one.uid}


def test_machines_that_were_bought_at_once_count_once():
    pods = [a_pod(f"web-{number}") for number in range(4)]
    launched = ago(minutes=9)
    many = [a_machine(n, pods={pod.uid: family(pod)}, launched_at=launched) for n, pod in enumerate(pods)]

    assert set(refusals(runaways_with(*many), *pods).until.values()) == {NOW + PAUSES[0]}


def test_after_a_machine_that_served_none_one_is_tried_at_a_time():
    pods = [a_pod(f"web-{number}", created_at=ago(minutes=9 - number)) for number in range(3)]
    runaways = runaways_with(a_machine(pods={"gone": family(pods[0])}, ended_at=ago(minutes=9)))
    found = refusals(runaways, *pods)
    assert set(found.refused) == {pods[1].uid, pods[2].uid}
    assert "One machine at a time is tried, now for pod web-0" in found.refused[pods[1].uid]

    on_its_way = runaways.refusals({pod.uid: pod for pod in pods}, NOW, {pods[1].uid})
    assert set(on_its_way.refused) == {pods[0].uid, pods[2].uid}


def test_a_gang_is_tried_whole():
    gang = {"annotations": {"tgp.io/gang": "g"}}
    pods = [a_pod("g-0", **gang), a_pod("web-1", created_at=ago(minutes=3)), a_pod("g-1", **gang)]
    pods[2] = msgspec.structs.replace(pods[2], created_at=ago(minutes=5))
    runaways = runaways_with(a_machine(pods={"gone": family(pods[0])}, ended_at=ago(minutes=9)))

    assert set(refusals(runaways, *pods).refused) == {pods[1].uid}


def test_a_pod_that_was_served_leaves_nothing_to_the_next_one():
    first, again = a_pod("web-1", owners=OWNER), a_pod("web-2", owners=OWNER)
    runaways = runaways_with(a_machine(pods={first.uid: family(first)}))
    runaways.forget([on_node("web-1", owners=OWNER)], {}, (), NOW)

    assert refusals(runaways, again).refused == {}
    runaways.learn(a_machine(pods={first.uid: family(first)}), NOW)
    assert refusals(runaways, again).refused == {}, "its failed request is still there"


@pytest.mark.parametrize(("ready", "refused"), [(1, False), (-1, True)])
def test_a_later_machine_that_serves_the_template_clears_what_pods_that_are_gone_left(ready, refused):
    first, runs, again = (a_pod(name, owners=OWNER) for name in ("web-1", "web-2", "web-3"))
    runaways = runaways_with(a_machine(pods={first.uid: family(first)}))
    running = msgspec.structs.replace(runs, node="n1")
    runaways.forget([running], {"n1": Serving(NOW + timedelta(minutes=ready))}, {again.uid}, NOW)

    assert bool(refusals(runaways, again).refused) is refused


# -- machines of a pool that serve no pod at all -----------------------------------------------------------------------


def an_unused_machine(number=1, *, minutes_ago=0, **rest):
    return a_machine(number, pods={}, pool="pool", generation=3, ended_at=ago(minutes=minutes_ago), **rest)


def test_after_three_machines_that_served_no_pod_their_pool_buys_nothing_for_a_day():
    machines = [an_unused_machine(number, minutes_ago=60 * number) for number in range(3)]
    assert runaways_with(*machines[:2]).unused_of("pool", 3, NOW) is None
    runaways = runaways_with(*machines)
    found = runaways.unused_of("pool", 3, NOW)

    assert found is not None
    assert found.until == ago(hours=2) + PAUSES[-1]
    assert "3 machines of this pool became ready within a day and served no pod; cost so far: $0.30" in found.message
    assert runaways.unused_of("pool", 3, found.until) is None
    assert runaways.unused_of("pool", 4, NOW) is None, "its spec has changed"
    assert runaways.unused_of("other", 3, NOW) is None


def test_machines_for_pods_of_one_family_count_once_for_their_pool():
    machines = [an_unused_machine(number) for number in range(3)]
    alike = [msgspec.structs.replace(each, pods={f"uid-{each.token}": "default/x"}) for each in machines]

    assert runaways_with(*alike, an_unused_machine(4)).unused_of("pool", 3, NOW) is None
    assert runaways_with(*alike, *map(an_unused_machine, (4, 5))).unused_of("pool", 3, NOW) is not None


@pytest.mark.parametrize(("ready", "gpus", "paused"), [(1, 1, False), (-1, 1, True), (1, 0, True)])
def test_a_later_machine_of_the_pool_that_serves_a_pod_ends_the_pause(ready, gpus, paused):
    runaways = runaways_with(*(an_unused_machine(number) for number in range(3)))
    serving = {"n1": Serving(NOW + timedelta(minutes=ready), "pool")}
    runaways.forget([on_node(gpus=gpus)], serving, (), NOW)

    assert (runaways.unused_of("pool", 3, NOW) is not None) is paused


@pytest.mark.parametrize(
    ("status", "made", "counts"),
    [
        ({}, {}, True),
        ({"idleSince": written(NOW)}, {}, False),
        ({"idleSince": None}, {}, False),
        ({"readyAt": None}, {}, False),
        ({}, {"anchor": f"slot-0.{POOL_UID}"}, False),
    ],
    ids=["unused", "used before", "used", "never ready", "a slot"],
)
def test_a_machine_that_ends_without_having_served_a_pod_is_noted(status, made, counts):
    launched = an_attempt(outcome="Launched", launchedAt=written(ago(hours=1)))
    usual = {"readyAt": written(ago(minutes=50)), "idleSince": written(ago(minutes=50)), **status}
    found = left_unused(a_request(phase="Ready", attempts=[launched], **usual, **made), 3, NOW)

    assert (found is not None) is counts
    if found is not None:
        assert (found.pool, found.generation, found.pods) == (POOL_UID, 3, {})


# -- what a request tells ----------------------------------------------------------------------------------------------


def failed(**rest):
    ended = an_attempt(outcome="Failed", launchedAt=written(ago(hours=1)), endedAt=written(NOW), **rest)
    return a_request(phase="Failed", attempts=[ended])


def test_only_what_was_paid_and_never_usable_has_failed():
    assert not [*failed_machines(a_request(attempts=[an_attempt(outcome="SoldOut", endedAt=written(NOW))]), NOW)]
    assert not [*failed_machines(a_request(attempts=[an_attempt(outcome="Failed", endedAt=written(NOW))]), NOW)]
    (found,) = failed_machines(failed(message="the Node did not join"), NOW)

    assert (found.offer, found.microusd) == ("simulated/t4.1/us-west-1/on-demand", 400_000)
    assert found.what.startswith("never became usable: the Node did not join")
    assert found.pods == {UID: UID}


def test_what_a_user_wrote_tells_nothing_of_pods():
    forged = msgspec.structs.replace(failed(), owners=())

    assert not [*failed_machines(forged, NOW)]


def ready_since(moment, *, pods=()):
    launched = an_attempt(outcome="Launched", launchedAt=written(ago(hours=1)))
    status = {"readyAt": written(moment), "idleSince": written(moment), "nodeName": "n1"}
    record = a_request(phase="Ready", attempts=[launched], **status)
    return unused_machine(record, a_node(), pods, a_pod(), NOW)


def test_a_machine_that_is_ready_and_unused_while_its_pod_waits_is_unusable():
    found = ready_since(NOW - SCHEDULED_WITHIN)

    assert found is not None
    assert found.ended_at == NOW
    assert ready_since(NOW - SCHEDULED_WITHIN + timedelta(seconds=1)) is None, "the scheduler gets a moment"
    assert ready_since(ago(hours=1), pods=[on_node("other")]) is None, "it serves a pod"


def test_a_machine_with_other_gpus_is_used_by_pods_that_request_those():
    launched = an_attempt(outcome="Launched", launchedAt=written(ago(hours=1)))
    launched["offer"] = {**launched["offer"], "gpuType": "MI300X"}
    status = {"readyAt": written(ago(hours=1)), "idleSince": written(ago(hours=1)), "nodeName": "n1"}
    record = a_request(attempts=[launched], **status)

    assert unused_since(record, a_node(), [on_node("other", resource="amd.com/gpu")]) is None
    assert unused_since(record, a_node(), [on_node("other", resource="amd.com/gpu", gpus=0)]) is not None
    assert unused_since(record, a_node(ready=False), ()) is None


@pytest.mark.parametrize(
    ("node", "what"),
    [
        (
            a_node(taints=(Taint("corp/x", "NoSchedule"),)),
            "has taint corp/x:NoSchedule, which the pod does not tolerate",
        ),
        (
            a_node(allocatable=Resources(500, GIB, ((GPU, 1), ("pods", 9)))),
            "the pod requests 1 CPU, and Node n1 has 0.5 CPU free",
        ),
        (a_node(), "for a reason of its own"),
        (a_node(taints=(DISRUPTED,)), "for a reason of its own"),
    ],
    ids=["taint", "small", "unknown", "our own taint"],
)
def test_the_obstacle_is_named(node, what):
    launched = an_attempt(outcome="Launched", launchedAt=written(ago(hours=1)))
    status = {"readyAt": written(ago(hours=1)), "idleSince": written(ago(hours=1)), "nodeName": "n1"}
    found = unused_machine(a_request(attempts=[launched], **status), node, (), a_pod(), NOW)

    assert found is not None
    assert what in found.what


def test_a_line_of_the_table_is_read_as_it_was_written():
    assert read_line(line_of(a_machine())) == a_machine()
    assert [read_line(line) for line in ("", "{}", 7, '{"token": 1}')] == [None] * 4


def ready(*, bought=False):
    return {"n1": ReadyNode.of(a_node("n1"), bought=bought)}


def disagreeing(*, bought, **pod):
    pod, found = a_pod(**pod), Disagreements()
    for now in (NOW, NOW + DISAGREED_AFTER):
        found.learn({UID: "n1"}, {UID: pod}, ready(bought=bought), now)
    return pod, found, NOW + DISAGREED_AFTER


def test_a_node_where_the_scheduler_refuses_a_pod_stops_counting_for_it():
    pod, found = a_pod(), Disagreements()
    for minutes, refused in ((0, {}), (4, {}), (5, {"n1": {UID}})):
        found.learn({UID: "n1"}, {UID: pod}, ready(), NOW + timedelta(minutes=minutes))
        assert (found.by_node([pod]), found.pods) == (refused, len(refused))
    assert found.refusals([pod], NOW + DISAGREED_AFTER) == {}


def test_nothing_more_is_bought_for_an_hour_for_pods_that_are_refused_on_a_machine_of_ours():
    pod, found, now = disagreeing(bought=True)
    assert set(found.refusals([pod], now)) == {UID}
    assert found.next_change(now) == now + DISAGREED_FOR

    assert set(found.refusals([pod], now + DISAGREED_FOR - timedelta(seconds=1))) == {UID}
    assert found.refusals([pod], now + DISAGREED_FOR) == {}
    found.learn({}, {UID: pod}, ready(bought=True), now + DISAGREED_FOR)
    assert found.refusals([pod], now + DISAGREED_FOR) == {}
    assert found.by_node([pod]) == {"n1": {UID}}  # while it waits: a machine that is bought now is another one
    assert found.next_change(now + DISAGREED_FOR) is None


def test_the_verdict_is_about_all_pods_of_the_template():
    """The next pod of a Job does not wait for it again, though the first one is gone."""
    _, found, now = disagreeing(bought=True, owners=OWNER)
    found.learn({}, {}, ready(bought=True), now + timedelta(minutes=1))
    later, other = a_pod("later", owners=OWNER), a_pod("other", priority=7)

    assert found.by_node([later, other]) == {"n1": {later.uid}}
    assert set(found.refusals([later, other], now)) == {later.uid}
    found.learn({}, {later.uid: later}, ready(bought=True), now + timedelta(minutes=2))
    assert found.pods == 1
    changed = msgspec.structs.replace(later, requests=Resources(1, 1, ((GPU, 1),)))
    assert (found.by_node([changed]), found.refusals([changed], now)) == ({}, {})


@pytest.mark.parametrize(
    "change", [{"labels": {"disk": "ssd"}}, {"taints": (Taint("x", "NoSchedule"),)}, {"allocatable": Resources(1, GIB)}]
)
def test_a_changed_node_is_another_one_to_the_scheduler(change):
    pod, found, now = disagreeing(bought=True)
    changed = {"n1": ReadyNode.of(msgspec.structs.replace(a_node("n1"), **change), bought=True)}
    found.learn({}, {UID: pod}, changed, now + timedelta(minutes=1))

    assert (found.by_node([pod]), found.refusals([pod], now)) == ({}, {})


def test_a_node_that_changes_while_it_refuses_has_its_time_again():
    pod, found = a_pod(), Disagreements()
    changed = {"n1": ReadyNode.of(msgspec.structs.replace(a_node("n1"), labels={"disk": "ssd"}), bought=False)}
    found.learn({UID: "n1"}, {UID: pod}, ready(), NOW)
    found.learn({UID: "n1"}, {UID: pod}, changed, NOW + timedelta(minutes=4))
    found.learn({UID: "n1"}, {UID: pod}, changed, NOW + timedelta(minutes=6))
    assert found.by_node([pod]) == {}


def test_what_a_node_reports_of_itself_is_no_change():
    pod, found, now = disagreeing(bought=True)
    again = msgspec.structs.replace(a_node("n1"), resource_version=99, annotations={"x": "y"}, kubelet_version="v9")
    found.learn({}, {UID: pod}, {"n1": ReadyNode.of(again, bought=True)}, now + timedelta(minutes=1))
    assert found.by_node([pod]) == {"n1": {UID}}


def test_a_machine_that_is_gone_does_not_end_the_hour():
    """Else the next one would be bought at once, and refused as well."""
    pod, found, now = disagreeing(bought=True)
    found.learn({}, {UID: pod}, {}, now + timedelta(minutes=1))
    assert set(found.refusals([pod], now)) == {UID}


def test_pods_that_come_one_after_another_and_are_bound_are_no_disagreement():
    found = Disagreements()
    for minute in range(12):
        pod = a_pod(f"pod-{minute}", owners=OWNER)
        now = NOW + timedelta(minutes=minute)
        found.learn({pod.uid: "n1"}, {pod.uid: pod}, ready(bought=True), now)
        assert (found.by_node([pod]), found.refusals([pod], now)) == ({}, {})


def test_a_verdict_is_forgotten_when_its_hour_is_over_and_no_such_pod_waits(monkeypatch):
    pod, found, now = disagreeing(bought=False, owners=OWNER)
    found.learn({}, {}, ready(), now + DISAGREED_FOR)
    assert found.by_node([pod]) == {}

    monkeypatch.setattr(runaway, "MOST_DISAGREEMENTS", 3)
    many = {f"uid-{at}": a_pod(f"{at}", uid=f"uid-{at}", priority=at) for at in range(5)}
    for later in (now, now + DISAGREED_AFTER):
        found.learn(dict.fromkeys(many, "n1"), many, ready(), later)
    assert len(found.by_node(many.values())["n1"]) == 3


def test_a_pod_that_was_bound_is_no_disagreement():
    found = Disagreements()
    found.learn({UID: "n1"}, {UID: a_pod()}, ready(bought=True), NOW)
    found.learn({}, {}, ready(bought=True), NOW + DISAGREED_AFTER)

    assert found.by_node([a_pod()]) == {}
    assert found.pods == 0
