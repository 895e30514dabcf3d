"""People and programs that lay hands on what is ours: annotations, statuses, Nodes, classes, the books."""

import pytest

from tests.sim.an_operator import NAMESPACE_NAME, a_class, operator_main
from tests.sim.lives.an_estate import Lives, lives
from tests.sim.lives.reference import CLASS, QUICK
from tgp.api.resource import CONFIG_MAP, GPU_NODE_CLASS, GPU_REQUEST, NODE
from tgp.app.settings import Settings
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.token import plain_uid
from tgp.sim.apiserver.json_value import copied
from tgp.sim.checkers.everyone import INVARIANTS
from tgp.sim.checkers.money import NoEndWithoutReason
from tgp.sim.checkers.objects import OVER, Quiet, loose_ends
from tgp.sim.clouds.mishaps import Mishap, Verb

ALONE = Settings(leader_elect=False)  # one replica: nothing here is about whose turn it is


def begin(stage: Lives, **spec) -> None:
    a_class(stage.world, CLASS, **spec)
    stage.world.process("operator", operator_main(ALONE))
    stage.world.run(minutes=1)


def ready(stage: Lives, name: str = "train", **spec) -> dict:
    stage.wants(name, **{"idleTimeout": "Never", **spec})
    stage.until(lambda: stage.phase(name) == "Ready", minutes=30)
    return stage.request(name)


def patch(stage: Lives, change: dict, name: str = "train", *, sub: str = "") -> None:
    stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", name, change, *([sub] if sub else []))


def edit_attempt(stage: Lives, name: str = "train", *, offer: dict | None = None, **row) -> None:
    """Somebody who may write statuses changes the newest attempt."""
    attempts = copied(stage.attempts(name))
    attempts[-1] |= row
    attempts[-1]["offer"] |= offer or {}
    patch(stage, {"status": {"attempts": attempts}}, name, sub="status")


def gone(stage: Lives, name: str = "train", *, minutes: float = 30) -> None:
    stage.drops(name)
    stage.until(lambda: stage.request(name) is None, minutes=minutes)


# -- our annotation ----------------------------------------------------------------------------------------------------


def test_an_annotation_that_somebody_changes_costs_nobody_a_machine_and_makes_no_room():
    """By its tokens it is the one that bought: neither is its machine an orphan, nor does it count for nothing."""
    with lives("annotation", kubelets=QUICK) as stage:
        begin(stage, limits={"maxNodes": 1})
        request = ready(stage)
        patch(stage, {"metadata": {"annotations": {UID_ANNOTATION: "somebody-elses"}}})
        stage.wants("second", idleTimeout="Never")
        stage.world.run(minutes=20)

        assert len(stage.shop.fleet.machines) == 1
        assert stage.phase() == "Ready"
        assert stage.condition("Launched", "second")[1] == "LimitReached"
        assert stage.request()["metadata"]["annotations"][UID_ANNOTATION] == request["metadata"]["uid"]


def test_an_annotation_that_somebody_removes_is_put_back():
    """A backup without it would make a copy that buys."""
    with lives("annotation gone", kubelets=QUICK) as stage:
        begin(stage)
        request = ready(stage)
        patch(stage, {"metadata": {"annotations": {UID_ANNOTATION: None}}})
        stage.world.run(minutes=2)

        assert stage.request()["metadata"]["annotations"][UID_ANNOTATION] == request["metadata"]["uid"]
        assert set(stage.request()["metadata"]["finalizers"]) == {FINALIZER}
        assert stage.phase() == "Ready"
        gone(stage)


# -- the status --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"offer": {"hourlyPrice": "a lot"}},
        {"offer": {"hourlyPrice": "0,50 EUR"}},
        {"hourlyPrice": "$0.50"},
        {"offer": {"bootMode": "bridge"}},
        {"offer": {"gpuType": "B900"}},
        {"offer": {"region": "moon-1", "gpuCount": 0}},
        {"settings": "{not json"},
        {"account": "of-somebody-else"},
        {"instanceId": ""},
        {"progressAt": "2126-01-01T00:00:00Z"},
        {"launchedAt": "2126-01-01T00:00:00Z"},
        {"token": "nonsense"},
    ],
    ids=str,
)
def test_a_record_that_somebody_edits_keeps_nobody_from_giving_the_machine_back(change):
    """A newer version's words, or a person's: whatever cannot be read is not needed to end what runs."""
    with lives(f"edited {change}", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        edit_attempt(stage, **change)
        stage.world.run(minutes=5)
        stage.drops()
        stage.until(lambda: stage.living() == [], minutes=30)
        stage.until(lambda: stage.request() is None, minutes=30)


def test_a_record_with_anothers_token_ends_nobody_elses_machine():
    with lives("others token", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage, "victim")
        ready(stage, "thief")
        theirs = copied(stage.attempts("victim"))
        patch(stage, {"status": {"attempts": theirs}}, "thief", sub="status")
        stage.world.run(minutes=10)
        stage.drops("thief")
        stage.world.run(minutes=30)

        assert stage.phase("victim") == "Ready"
        assert [machine.name for machine in stage.living()] == [theirs[-1]["token"]]
        assert stage.request("thief") is None


def test_a_node_name_that_somebody_writes_into_a_status_makes_no_other_node_ours():
    """A control plane's Node may have no provider id; it is older than the request, so it is not what was rented."""
    with lives("node name", kubelets=QUICK) as stage:
        labels = {"node-role.kubernetes.io/control-plane": ""}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cp-1", "labels": labels}, "spec": {}}
        stage.world.api.backstage.create(NODE, node)
        stage.world.run(minutes=5)
        begin(stage)
        ready(stage)
        patch(stage, {"status": {"nodeName": "cp-1"}}, sub="status")
        stage.world.run(minutes=5)
        stage.drops()
        stage.world.run(minutes=60)

        assert stage.node("cp-1") is not None
        assert stage.node("cp-1")["metadata"]["labels"] == labels
        assert not stage.node("cp-1")["spec"].get("providerID")
        assert not stage.node("cp-1")["spec"].get("unschedulable")
        assert stage.living() == []


def test_an_attempt_that_somebody_declares_over_counts_until_its_machine_is_gone():
    believing = [each for each in INVARIANTS if each is not NoEndWithoutReason]  # which takes that word for ours
    with lives("declared over", kubelets=QUICK, invariants=believing) as stage:
        begin(stage, limits={"maxNodes": 1})
        ready(stage)
        stage.wants("second", idleTimeout="Never")
        stage.world.run(minutes=5)
        edit_attempt(stage, endedAt=f"{stage.world.clock.now():%Y-%m-%dT%H:%M:%SZ}", outcome="Returned")
        stage.until(lambda: len(stage.shop.fleet.machines) == 2, minutes=30)
        assert len(stage.living()) == 1
        stage.until(lambda: "Ready" in (stage.phase(), stage.phase("second")), minutes=30)


@pytest.mark.parametrize("kind", ["Ended", "Terminating", "Restored"])
def test_a_condition_that_somebody_writes_ends_no_record_of_a_machine(kind):
    with lives(f"forged {kind}", kubelets=QUICK) as stage:
        begin(stage, limits={"maxNodes": 1})
        ready(stage)
        row = {"type": kind, "status": "True", "reason": "Because", "message": "I say so"}
        row["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        rows = [*stage.request()["status"]["conditions"], row]
        patch(stage, {"status": {"conditions": rows}}, sub="status")
        stage.world.run(minutes=30)
        if kind == "Terminating":
            assert stage.phase() in OVER
            assert stage.living() == []
        else:
            assert stage.phase() == "Ready"
        gone(stage)
        assert loose_ends(stage.witness) == []


# -- Nodes -------------------------------------------------------------------------------------------------------------


def test_a_node_that_anothers_finalizer_holds_keeps_no_request_and_no_api_server_busy():
    with lives("held node", kubelets=QUICK) as stage:
        begin(stage)
        name = ready(stage)["status"]["nodeName"]
        api = stage.world.api.backstage
        api.merge_patch(NODE, "", name, {"metadata": {"finalizers": ["example.com/inventory"]}})
        stage.world.run(minutes=1)
        stage.drops()
        stage.until(lambda: stage.living() == [], minutes=20)
        before = len(stage.world.effects)
        stage.until(lambda: stage.request() is None, minutes=20)

        assert len(stage.world.effects) - before < 100
        api.merge_patch(NODE, "", name, {"metadata": {"finalizers": None}})
        stage.world.run(minutes=5)
        assert stage.node(name) is None


# -- classes -----------------------------------------------------------------------------------------------------------


def test_a_provider_that_leaves_the_class_keeps_its_machine_until_it_is_given_back():
    with lives("left", "vultr", "simulated", kubelets=QUICK) as stage:
        begin(stage, providers=[{"name": "vultr"}])
        ready(stage, gpuType="A16")
        change = {"spec": {"providers": [{"name": "simulated"}]}}
        stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", CLASS, change)
        stage.world.run(hours=1)
        assert stage.phase() == "Ready"
        assert len(stage.living()) == 1
        gone(stage)
        assert stage.living() == []


def test_a_provider_that_leaves_the_class_while_an_order_is_in_doubt_is_asked_on():
    with lives("left in doubt", "vultr", "simulated", kubelets=QUICK) as stage:
        begin(stage, providers=[{"name": "vultr"}])
        stage.shops["vultr"].mishaps.aim(Mishap.HANG_UP_AFTER, Verb.LAUNCH)
        stage.wants(gpuType="A16", idleTimeout="Never")
        stage.until(lambda: stage.living() != [], minutes=15, step=0.25)
        change = {"spec": {"providers": [{"name": "simulated"}]}}
        stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", CLASS, change)
        stage.until(lambda: stage.phase() == "Ready", minutes=30)

        assert len(stage.attempts()) == 1
        assert len(stage.living()) == 1
        gone(stage)
        assert stage.living() == []


def test_a_class_that_somebody_takes_away_by_force_leaves_its_machine_to_its_request():
    with lives("forced class", kubelets=QUICK) as stage:
        begin(stage, limits={"maxNodes": 2})
        ready(stage)
        api = stage.world.api.backstage
        api.delete(GPU_NODE_CLASS, "", CLASS)
        api.merge_patch(GPU_NODE_CLASS, "", CLASS, {"metadata": {"finalizers": None}})
        stage.world.run(hours=1)
        assert stage.phase() == "Ready"

        a_class(stage.world, CLASS, limits={"maxNodes": 1})
        stage.wants("second", idleTimeout="Never")
        stage.world.run(minutes=10)
        assert stage.condition("Launched", "second")[1] == "LimitReached"
        gone(stage)
        stage.until(lambda: stage.phase("second") == "Ready", minutes=30)


def test_a_limit_that_is_lowered_ends_nothing_and_sells_nothing():
    with lives("lowered", kubelets=QUICK) as stage:
        begin(stage, limits={"maxNodes": 3})
        ready(stage, "one")
        ready(stage, "two")
        change = {"spec": {"limits": {"maxNodes": 1, "maxHourlyCost": "0.60"}}}
        stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", CLASS, change)
        stage.wants("three", idleTimeout="Never")
        stage.world.run(hours=1)

        assert [stage.phase(name) for name in ("one", "two", "three")] == ["Ready", "Ready", "Pending"]
        assert stage.condition("Launched", "three")[1] == "LimitReached"


def test_a_life_that_is_shortened_below_its_age_ends_at_once():
    with lives("shortened", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage, maxLifetime="10h")
        stage.world.run(hours=2)
        patch(stage, {"spec": {"maxLifetime": "1h"}})
        stage.until(lambda: stage.phase() in OVER, minutes=15)

        assert stage.condition("Ended")[1] == "Expired"
        assert stage.living() == []


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_request_that_is_written_anew_under_its_name_at_once_is_another_request():
    with lives("anew", kubelets=QUICK) as stage:
        begin(stage, limits={"maxNodes": 1})
        first = ready(stage)
        stage.witness.forced[plain_uid(first["metadata"]["uid"])] = None
        stage.drops()
        patch(stage, {"metadata": {"finalizers": None}})
        stage.wants(idleTimeout="Never")
        stage.until(lambda: stage.phase() == "Ready", minutes=30)

        second = stage.request()
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert [row["number"] for row in stage.attempts()] == [1]
        (machine,) = stage.living()
        assert machine.name == stage.attempts()[0]["token"]
        assert stage.nodes() == [second["status"]["nodeName"]]


def test_anothers_finalizer_keeps_the_object_and_nothing_else():
    with lives("second finalizer", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        both = [*stage.request()["metadata"]["finalizers"], "example.com/audit"]
        patch(stage, {"metadata": {"finalizers": both}})
        stage.drops()
        stage.until(lambda: stage.request()["metadata"]["finalizers"] == ["example.com/audit"], minutes=30)
        assert stage.living() == []
        stage.world.run(minutes=15)
        with Quiet(stage.world):
            stage.world.run(minutes=30)
        patch(stage, {"metadata": {"finalizers": None}})
        stage.world.run(minutes=1)
        assert stage.request() is None


# -- the books ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["deleted", "garbage", "immutable", "deleting"])
def test_whatever_becomes_of_a_page_of_the_books_the_next_machine_is_entered(page):
    with lives(f"books {page}", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage, "first")
        gone(stage, "first")
        api = stage.world.api.backstage
        (name,) = [
            found["metadata"]["name"]
            for found in api.objects(CONFIG_MAP, NAMESPACE_NAME)
            if "spend" in found["metadata"]["name"]
        ]
        match page:
            case "deleted":
                api.delete(CONFIG_MAP, NAMESPACE_NAME, name)
            case "garbage":
                data = api.get(CONFIG_MAP, NAMESPACE_NAME, name)["data"]
                api.merge_patch(CONFIG_MAP, NAMESPACE_NAME, name, {"data": dict.fromkeys(data, "{{{")})
            case "immutable":
                api.merge_patch(CONFIG_MAP, NAMESPACE_NAME, name, {"immutable": True})
            case _:
                api.merge_patch(CONFIG_MAP, NAMESPACE_NAME, name, {"metadata": {"finalizers": ["example.com/keep"]}})
                api.delete(CONFIG_MAP, NAMESPACE_NAME, name)
        uid = ready(stage, "second")["metadata"]["uid"]
        gone(stage, "second")

        assert plain_uid(uid) in stage.spend_records().replace("-", "")
