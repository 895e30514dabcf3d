"""People and programs that lay hands on what is ours: annotations, statuses, Nodes, classes, the books."""

import pytest

from tests.sim.an_operator import ALONE, NAMESPACE_NAME, a_class, operator_main
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import CLASS, QUICK
from tgp.api.resource import CONFIG_MAP, GPU_NODE_CLASS, GPU_REQUEST, NODE
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.token import plain_uid
from tgp.sim.apiserver.json_value import copied
from tgp.sim.checkers.money import NoEndWithoutReason
from tgp.sim.checkers.objects import OVER, Quiet, loose_ends
from tgp.sim.checkers.registry import INVARIANTS
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb


def begin(env: SimEnv, **spec) -> None:
    a_class(env.world, CLASS, **spec)
    env.world.process("operator", operator_main(ALONE))
    env.world.run(minutes=1)


def ready(env: SimEnv, name: str = "train", **spec) -> dict:
    env.wants(name, **{"idleTimeout": "Never", **spec})
    env.until(lambda: env.phase(name) == "Ready", minutes=30)
    return env.request(name)


def patch(env: SimEnv, change: dict, name: str = "train", *, sub: str = "") -> None:
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, change, *([sub] if sub else []))


def edit_attempt(env: SimEnv, name: str = "train", *, offer: dict | None = None, **row) -> None:
    """A user who may write statuses changes the newest attempt."""
    attempts = copied(env.attempts(name))
    attempts[-1] |= row
    attempts[-1]["offer"] |= offer or {}
    patch(env, {"status": {"attempts": attempts}}, name, sub="status")


def gone(env: SimEnv, name: str = "train", *, minutes: float = 30) -> None:
    env.drops(name)
    env.until(lambda: env.request(name) is None, minutes=minutes)


# -- our annotation ----------------------------------------------------------------------------------------------------


def test_an_edited_annotation_costs_no_machine_and_makes_no_room():
    """By its tokens it is the one that bought: neither is its machine an orphan, nor does it count for nothing."""
    with sim_env("annotation", kubelets=QUICK) as env:
        begin(env, limits={"maxNodes": 1})
        request = ready(env)
        patch(env, {"metadata": {"annotations": {UID_ANNOTATION: "another-owners"}}})
        env.wants("second", idleTimeout="Never")
        env.world.run(minutes=20)

        assert len(env.simulator.fleet.machines) == 1
        assert env.phase() == "Ready"
        assert env.condition("Launched", "second")[1] == "LimitReached"
        assert env.request()["metadata"]["annotations"][UID_ANNOTATION] == request["metadata"]["uid"]


def test_a_removed_annotation_is_put_back():
    """A backup without it would make a copy that buys."""
    with sim_env("annotation gone", kubelets=QUICK) as env:
        begin(env)
        request = ready(env)
        patch(env, {"metadata": {"annotations": {UID_ANNOTATION: None}}})
        env.world.run(minutes=2)

        assert env.request()["metadata"]["annotations"][UID_ANNOTATION] == request["metadata"]["uid"]
        assert set(env.request()["metadata"]["finalizers"]) == {FINALIZER}
        assert env.phase() == "Ready"
        gone(env)


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
        {"account": "of-another-tenant"},
        {"instanceId": ""},
        {"progressAt": "2126-01-01T00:00:00Z"},
        {"launchedAt": "2126-01-01T00:00:00Z"},
        {"token": "nonsense"},
    ],
    ids=str,
)
def test_an_edited_record_does_not_prevent_the_termination(change):
    """A newer version's words, or a person's: whatever cannot be read is not needed to end what runs."""
    with sim_env(f"edited {change}", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        edit_attempt(env, **change)
        env.world.run(minutes=5)
        env.drops()
        env.until(lambda: env.living() == [], minutes=30)
        env.until(lambda: env.request() is None, minutes=30)


def test_a_record_with_anothers_token_ends_no_other_machine():
    with sim_env("others token", kubelets=QUICK) as env:
        begin(env)
        ready(env, "victim")
        ready(env, "thief")
        theirs = copied(env.attempts("victim"))
        patch(env, {"status": {"attempts": theirs}}, "thief", sub="status")
        env.world.run(minutes=10)
        env.drops("thief")
        env.world.run(minutes=30)

        assert env.phase("victim") == "Ready"
        assert [machine.name for machine in env.living()] == [theirs[-1]["token"]]
        assert env.request("thief") is None


def test_a_node_name_that_a_user_writes_into_a_status_makes_no_other_node_ours():
    """A control plane's Node may have no provider id; it is older than the request, so it is not what was rented."""
    with sim_env("node name", kubelets=QUICK) as env:
        labels = {"node-role.kubernetes.io/control-plane": ""}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "cp-1", "labels": labels}, "spec": {}}
        env.world.api.local_api.create(NODE, node)
        env.world.run(minutes=5)
        begin(env)
        ready(env)
        patch(env, {"status": {"nodeName": "cp-1"}}, sub="status")
        env.world.run(minutes=5)
        env.drops()
        env.world.run(minutes=60)

        assert env.node("cp-1") is not None
        assert env.node("cp-1")["metadata"]["labels"] == labels
        assert not env.node("cp-1")["spec"].get("providerID")
        assert not env.node("cp-1")["spec"].get("unschedulable")
        assert env.living() == []


def test_an_attempt_that_a_user_declares_ended_counts_until_its_machine_is_gone():
    believing = [each for each in INVARIANTS if each is not NoEndWithoutReason]  # which takes that word for ours
    with sim_env("declared over", kubelets=QUICK, invariants=believing) as env:
        begin(env, limits={"maxNodes": 1})
        ready(env)
        env.wants("second", idleTimeout="Never")
        env.world.run(minutes=5)
        edit_attempt(env, endedAt=f"{env.world.clock.now():%Y-%m-%dT%H:%M:%SZ}", outcome="Terminated")
        env.until(lambda: len(env.simulator.fleet.machines) == 2, minutes=30)
        assert len(env.living()) == 1
        env.until(lambda: "Ready" in (env.phase(), env.phase("second")), minutes=30)


@pytest.mark.parametrize("kind", ["Ended", "Terminating", "Restored"])
def test_a_condition_that_a_user_writes_ends_no_record_of_a_machine(kind):
    with sim_env(f"forged {kind}", kubelets=QUICK) as env:
        begin(env, limits={"maxNodes": 1})
        ready(env)
        row = {"type": kind, "status": "True", "reason": "Because", "message": "I say so"}
        row["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        rows = [*env.request()["status"]["conditions"], row]
        patch(env, {"status": {"conditions": rows}}, sub="status")
        env.world.run(minutes=30)
        if kind == "Terminating":
            assert env.phase() in OVER
            assert env.living() == []
        else:
            assert env.phase() == "Ready"
        gone(env)
        assert loose_ends(env.recorder) == []


# -- Nodes -------------------------------------------------------------------------------------------------------------


def test_a_node_that_anothers_finalizer_holds_keeps_no_request_and_no_api_server_busy():
    with sim_env("held node", kubelets=QUICK) as env:
        begin(env)
        name = ready(env)["status"]["nodeName"]
        api = env.world.api.local_api
        api.merge_patch(NODE, "", name, {"metadata": {"finalizers": ["example.com/inventory"]}})
        env.world.run(minutes=1)
        env.drops()
        env.until(lambda: env.living() == [], minutes=20)
        before = len(env.world.effects)
        env.until(lambda: env.request() is None, minutes=20)

        assert len(env.world.effects) - before < 100
        api.merge_patch(NODE, "", name, {"metadata": {"finalizers": None}})
        env.world.run(minutes=5)
        assert env.node(name) is None


# -- classes -----------------------------------------------------------------------------------------------------------


def test_a_provider_that_leaves_the_class_keeps_its_machine_until_it_is_terminated():
    with sim_env("left", "vultr", "simulated", kubelets=QUICK) as env:
        begin(env, providers=[{"name": "vultr"}])
        ready(env, gpuType="A16")
        change = {"spec": {"providers": [{"name": "simulated"}]}}
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", CLASS, change)
        env.world.run(hours=1)
        assert env.phase() == "Ready"
        assert len(env.living()) == 1
        gone(env)
        assert env.living() == []


def test_a_provider_that_leaves_the_class_while_an_order_is_in_doubt_is_asked_on():
    with sim_env("left in doubt", "vultr", "simulated", kubelets=QUICK) as env:
        begin(env, providers=[{"name": "vultr"}])
        env.simulators["vultr"].faults.aim(CloudFault.HANG_UP_AFTER, CloudVerb.LAUNCH)
        env.wants(gpuType="A16", idleTimeout="Never")
        env.until(lambda: env.living() != [], minutes=15, step=0.25)
        change = {"spec": {"providers": [{"name": "simulated"}]}}
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", CLASS, change)
        env.until(lambda: env.phase() == "Ready", minutes=30)

        assert len(env.attempts()) == 1
        assert len(env.living()) == 1
        gone(env)
        assert env.living() == []


def test_a_class_that_is_deleted_by_force_leaves_its_machine_to_its_request():
    with sim_env("forced class", kubelets=QUICK) as env:
        begin(env, limits={"maxNodes": 2})
        ready(env)
        api = env.world.api.local_api
        api.delete(GPU_NODE_CLASS, "", CLASS)
        api.merge_patch(GPU_NODE_CLASS, "", CLASS, {"metadata": {"finalizers": None}})
        env.world.run(hours=1)
        assert env.phase() == "Ready"

        a_class(env.world, CLASS, limits={"maxNodes": 1})
        env.wants("second", idleTimeout="Never")
        env.world.run(minutes=10)
        assert env.condition("Launched", "second")[1] == "LimitReached"
        gone(env)
        env.until(lambda: env.phase("second") == "Ready", minutes=30)


def test_a_limit_that_is_lowered_ends_nothing_and_sells_nothing():
    with sim_env("lowered", kubelets=QUICK) as env:
        begin(env, limits={"maxNodes": 3})
        ready(env, "one")
        ready(env, "two")
        change = {"spec": {"limits": {"maxNodes": 1, "maxHourlyCost": "0.60"}}}
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", CLASS, change)
        env.wants("three", idleTimeout="Never")
        env.world.run(hours=1)

        assert [env.phase(name) for name in ("one", "two", "three")] == ["Ready", "Ready", "Pending"]
        assert env.condition("Launched", "three")[1] == "LimitReached"


def test_a_life_that_is_shortened_below_its_age_ends_at_once():
    with sim_env("shortened", kubelets=QUICK) as env:
        begin(env)
        ready(env, maxLifetime="10h")
        env.world.run(hours=2)
        patch(env, {"spec": {"maxLifetime": "1h"}})
        env.until(lambda: env.phase() in OVER, minutes=15)

        assert env.condition("Ended")[1] == "Expired"
        assert env.living() == []


# -- names -------------------------------------------------------------------------------------------------------------


def test_a_request_that_is_written_again_under_its_name_at_once_is_another_request():
    with sim_env("again", kubelets=QUICK) as env:
        begin(env, limits={"maxNodes": 1})
        first = ready(env)
        env.recorder.forced[plain_uid(first["metadata"]["uid"])] = None
        env.drops()
        patch(env, {"metadata": {"finalizers": None}})
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=30)

        second = env.request()
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert [row["number"] for row in env.attempts()] == [1]
        (machine,) = env.living()
        assert machine.name == env.attempts()[0]["token"]
        assert env.nodes() == [second["status"]["nodeName"]]


def test_anothers_finalizer_keeps_the_object_and_nothing_else():
    with sim_env("second finalizer", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        both = [*env.request()["metadata"]["finalizers"], "example.com/audit"]
        patch(env, {"metadata": {"finalizers": both}})
        env.drops()
        env.until(lambda: env.request()["metadata"]["finalizers"] == ["example.com/audit"], minutes=30)
        assert env.living() == []
        env.world.run(minutes=15)
        with Quiet(env.world):
            env.world.run(minutes=30)
        patch(env, {"metadata": {"finalizers": None}})
        env.world.run(minutes=1)
        assert env.request() is None


# -- the books ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", ["deleted", "garbage", "immutable", "deleting"])
def test_whatever_becomes_of_a_page_of_the_books_the_next_machine_is_entered(page):
    with sim_env(f"books {page}", kubelets=QUICK) as env:
        begin(env)
        ready(env, "first")
        gone(env, "first")
        api = env.world.api.local_api
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
        uid = ready(env, "second")["metadata"]["uid"]
        gone(env, "second")

        assert plain_uid(uid) in env.spend_records().replace("-", "")
