"""Disruption in a whole world: machines go within budgets, replaced first where pods need them."""

from typing import Any

import pytest

from tests.sim.cluster.manifests import a_set, a_template
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.with_pools import TOLERATES, asks, begin, events_of, pool_of, requests
from tgp.adapters.kube.store import Store
from tgp.api.resource import (
    DAEMON_SET,
    DEPLOYMENT,
    GPU_NODE_CLASS,
    GPU_NODE_POOL,
    GPU_REQUEST,
    NODE,
    POD,
    POD_DISRUPTION_BUDGET,
)
from tgp.sim.node_bootstrap import NodeFault


def set_pool(env: SimEnv, **spec: Any) -> None:
    env.world.api.local_api.merge_patch(GPU_NODE_POOL, "default", "pool-0", {"spec": spec})


def disrupted(env: SimEnv, request: dict[str, Any]) -> tuple[str, str, str]:
    rows = request.get("status", {}).get("conditions", [])
    found = [(row["status"], row["reason"], row["message"]) for row in rows if row["type"] == "Disrupted"]
    return found[0] if found else ("", "", "")


def taints(env: SimEnv) -> list[str]:
    every = (taint for node in env.world.api.local_api.objects(NODE) for taint in node["spec"].get("taints", ()))
    return [taint["effect"] for taint in every if taint["key"] == "tgp.io/disrupted"]


def test_empty_machines_go_no_faster_than_the_budget_allows():
    with sim_env("budget") as env:
        begin(env, disruption={"consolidateAfter": "1m", "budgets": [{"nodes": 1}]}, replicas=4)
        env.until(lambda: len(env.nodes()) == 4, minutes=30)
        env.world.run(minutes=3)
        most = 0
        set_pool(env, replicas=None)
        for _ in range(240):
            env.world.run(seconds=10)
            leaving = [row for row in requests(env) if "deletionTimestamp" in row["metadata"]]
            most = max(most, len(leaving))
            if not requests(env):
                break

        assert requests(env) == []
        assert env.living() == []
        assert most == 1


def test_a_budget_of_zero_keeps_empty_machines_and_says_so():
    with sim_env("closed") as env:
        begin(env, disruption={"consolidateAfter": "1m", "budgets": [{"nodes": 0}]})
        asks(env, run_for="1m")
        env.until(lambda: len(env.nodes()) == 1, minutes=30)
        env.world.run(minutes=45)

        (request,) = requests(env)
        status, reason, message = disrupted(env, request)
        assert (status, reason) == ("False", "BudgetExhausted")
        assert "spec.disruption.budgets[0] (nodes: 0) allows no more disruption now" in message
        assert len(env.living()) == 1
        set_pool(env, disruption={"budgets": [{"nodes": 1}]})
        env.until(lambda: requests(env) == [], minutes=30)


# -- replaced first ----------------------------------------------------------------------------------------------------


def serves(env: SimEnv, *, replicas: int = 1, apart: bool = False, annotations: dict[str, str] | None = None) -> None:
    """A Deployment whose pods take a GPU each."""
    template = a_template({"app": "serve"}, gpus=1, tolerations=TOLERATES)
    template["metadata"]["annotations"] = annotations or {}
    if apart:
        term = {"labelSelector": {"matchLabels": {"app": "serve"}}, "topologyKey": "kubernetes.io/hostname"}
        rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        template["spec"]["affinity"] = {"podAntiAffinity": rule}
    env.world.api.local_api.create(DEPLOYMENT, a_set("serve", template=template, replicas=replicas))


def serving(pod: dict[str, Any]) -> bool:
    return pod["metadata"]["labels"].get("app") == "serve"


def steps_told(env: SimEnv, name: str) -> list[str]:
    """Events of moves about a request or a Node."""
    return sorted(reason for reason, _ in events_of(env, name) if reason.startswith("Disruption"))


def running(env: SimEnv) -> int:
    ours = [pod for pod in env.world.api.local_api.objects(POD) if serving(pod)]
    return sum(pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in ours)


def drift(env: SimEnv) -> None:
    """Another taint: every pod here tolerates it."""
    set_pool(env, template={"spec": {"taints": [{"key": "example.com/new", "effect": "NoSchedule"}]}})


def names(env: SimEnv) -> set[str]:
    return {row["metadata"]["name"] for row in requests(env)}


class Watched:
    """What a checker sees on the way: at most so many machines, and no pod without a place."""

    def __init__(self, env: SimEnv) -> None:
        self.env = env
        self.most_machines = 0
        self.least_running = 1 << 30

    def until(self, happened, *, minutes: float = 60) -> None:
        for _ in range(int(minutes * 12)):
            self.env.world.run(seconds=5)
            self.most_machines = max(self.most_machines, len(self.env.living()))
            self.least_running = min(self.least_running, running(self.env))
            if happened():
                return
        told = [(row["metadata"]["annotations"], disrupted(self.env, row)) for row in requests(self.env)]
        raise AssertionError(f"it did not happen: {told}")


def test_a_drifted_machine_is_replaced_before_its_pods_are_asked_to_leave():
    with sim_env("drift") as env:
        begin(env)
        serves(env)
        env.until(lambda: running(env) == 1, minutes=30)
        before = names(env)
        env.world.run(minutes=5)
        drift(env)
        watched = Watched(env)
        watched.until(lambda: len(names(env)) == 2)
        replacement = next(row for row in requests(env) if row["metadata"]["name"] not in before)
        env.world.run(minutes=1)
        (move,) = pool_of(env)["status"]["moves"]
        assert (move["request"], move["reason"], move["underWay"]) == (*before, "Drifted", True)
        assert replacement["metadata"]["annotations"]["tgp.io/replaces"] in before
        watched.until(lambda: not names(env) & before and running(env) == 1)

        assert watched.most_machines == 2
        env.world.run(minutes=30)
        assert len(requests(env)) == len(env.living()) == 1
        assert taints(env) == []
        assert names(env) == {replacement["metadata"]["name"]}
        assert "moves" not in pool_of(env)["status"]
        (name,) = before
        steps = ["DisruptionLaunching", "DisruptionTerminating", "DisruptionWaitingReadiness"]
        assert steps_told(env, name) == steps
        assert steps_told(env, move["node"]) == steps


def test_machines_drift_one_by_one_within_the_budget_and_no_pod_is_without_room():
    with sim_env("rolling") as env:
        begin(env, disruption={"budgets": [{"nodes": 1}]})
        serves(env, replicas=3, apart=True)
        env.until(lambda: running(env) == 3, minutes=30)
        before = names(env)
        assert len(before) == 3
        env.world.run(minutes=5)
        drift(env)
        watched = Watched(env)
        watched.until(lambda: not names(env) & before, minutes=120)

        assert watched.most_machines == 4
        assert watched.least_running >= 2
        assert len(env.living()) == 3


def test_an_image_comes_to_the_machines_of_a_gang_one_by_one():
    with sim_env("gang") as env:
        begin(env, disruption={"budgets": [{"nodes": 1}]})
        serves(env, replicas=4, apart=True, annotations={"tgp.io/gang": "train", "tgp.io/gang-size": "4"})
        env.until(lambda: running(env) == 4, minutes=30)
        before = names(env)
        assert len(before) == 4
        env.world.run(minutes=5)
        change = {"spec": {"talosConfig": {"image": "v1.11.9"}}}
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", change)
        watched = Watched(env)
        watched.until(lambda: not names(env) & before and running(env) == 4, minutes=180)

        assert watched.most_machines == 5
        assert watched.least_running >= 3


def test_an_expired_machine_is_replaced():
    with sim_env("expired") as env:
        begin(env, disruption={"expireAfter": "1h"})
        serves(env)
        env.until(lambda: running(env) == 1, minutes=30)
        before = names(env)
        Watched(env).until(lambda: not names(env) & before and running(env) == 1, minutes=90)
        assert len(env.living()) == 1


def test_a_pool_with_replicas_replaces_them_and_never_has_more_in_the_end():
    with sim_env("replicas-drift") as env:
        begin(env, replicas=2)
        env.until(lambda: len(env.nodes()) == 2, minutes=30)
        env.world.run(minutes=5)
        before = names(env)
        drift(env)
        watched = Watched(env)
        watched.until(lambda: not names(env) & before, minutes=120)
        env.world.run(minutes=20)

        assert watched.most_machines == 3
        assert len(requests(env)) == len(env.living()) == 2


@pytest.mark.parametrize("seed", ["replicas-given-up", "s1", "s6"])
def test_of_two_machines_of_one_replica_the_idle_one_goes_after_a_move_was_given_up(seed):
    """The view may not show yet that a pod runs on the new one: pods are listed once more before it is deleted."""
    with sim_env(seed) as env:
        begin(env, replicas=1)
        env.until(lambda: len(env.nodes()) == 1, minutes=30)
        env.world.run(minutes=5)
        before = names(env)
        drift(env)
        env.until(lambda: len(env.nodes()) == 2, minutes=30)
        (node,) = {row["status"].get("nodeName") for row in requests(env) if row["metadata"]["name"] not in before}
        asks(env, "early", run_for="30m", nodeName=node)
        set_pool(env, disruption={"budgets": [{"nodes": 0}]})
        env.until(lambda: len(requests(env)) == 1, minutes=20)

        assert names(env) != before, "work that runs is not ended"
        env.world.run(minutes=20)
        assert len(requests(env)) == len(env.living()) == 1


def test_a_replica_gets_one_replacement_though_watches_lag():
    with sim_env("replicas-lag") as env:
        begin(env, replicas=1)
        env.until(lambda: len(env.nodes()) == 1, minutes=30)
        env.world.run(minutes=5)
        before = names(env)
        env.world.api.faults.on("watch-lag", seconds=6.0)
        drift(env)
        watched = Watched(env)
        watched.until(lambda: not names(env) & before, minutes=120)

        assert watched.most_machines == 2


def test_a_move_leaves_requests_alone_that_only_carry_its_marks():
    """A copy that a user made with kubectl, say: it is the user's, and says nothing of the move."""
    with sim_env("copied-marks") as env:
        name = one_machine(env)
        env.node_bootstrap.node_faults.chances[NodeFault.NEVER_REGISTERS] = 1.0
        drift(env)
        env.until(lambda: "tgp.io/move" in of(env, name)["metadata"]["annotations"], minutes=10)
        move = of(env, name)["metadata"]["annotations"]["tgp.io/move"]
        marks = {"tgp.io/move": move, "tgp.io/replaces": name}
        meta = {"name": "mine", "namespace": "default", "annotations": marks}
        spec = {"nodeClassRef": {"name": "rented"}, "gpuType": "T4", "maxHourlyPrice": "0.01"}
        env.world.api.local_api.create(GPU_REQUEST, {"metadata": meta, "spec": spec})
        env.world.run(minutes=90)

        assert "mine" in names(env)


def one_machine(env: SimEnv, *, annotations: dict[str, str] | None = None, **spec: Any) -> str:
    """Of a pool with a Deployment of one pod, which runs."""
    begin(env, **spec)
    serves(env, annotations=annotations)
    env.until(lambda: running(env) == 1, minutes=30)
    env.world.run(minutes=3)
    (name,) = names(env)
    return name


def of(env: SimEnv, name: str) -> dict[str, Any]:
    return next(row for row in requests(env) if row["metadata"]["name"] == name)


def test_a_stamp_of_another_version_is_renewed_and_drifts_nothing():
    with sim_env("upgrade") as env:
        name = one_machine(env)
        api = env.world.api.local_api
        api.merge_patch(GPU_REQUEST, "default", name, {"metadata": {"annotations": {"tgp.io/drift-hash": "0-beef"}}})
        env.world.run(minutes=10)

        assert of(env, name)["metadata"]["annotations"]["tgp.io/drift-hash"].startswith("1-")
        assert disrupted(env, of(env, name)) == ("", "", "")
        assert names(env) == {name}


def test_labels_and_annotations_of_the_template_are_corrected_in_place_and_drift_nothing():
    with sim_env("in-place") as env:
        first = {"labels": {"team": "a"}, "annotations": {"example.com/note": "one", "example.com/old": "x"}}
        name = one_machine(env, template={"metadata": first})
        node = of(env, name)["status"]["nodeName"]
        assert env.node(node)["metadata"]["annotations"]["example.com/note"] == "one"
        change = {"labels": {"team": "b"}, "annotations": {"example.com/note": "two", "example.com/old": None}}
        set_pool(env, template={"metadata": change})
        env.world.run(minutes=5)

        metadata = env.node(node)["metadata"]
        assert (metadata["labels"]["team"], metadata["annotations"]["example.com/note"]) == ("b", "two")
        assert "example.com/old" not in metadata["annotations"]
        assert names(env) == {name}
        assert disrupted(env, of(env, name)) == ("", "", "")


def test_a_replacement_that_never_joins_is_taken_back_and_tried_again_later():
    with sim_env("never-ready") as env:
        name = one_machine(env)
        env.node_bootstrap.node_faults.chances[NodeFault.NEVER_REGISTERS] = 1.0
        drift(env)
        watched = Watched(env)
        watched.until(lambda: "tgp.io/move-retry" in of(env, name)["metadata"]["annotations"], minutes=180)

        assert watched.least_running == 1, "no pod was asked to leave"
        assert disrupted(env, of(env, name))[:2] == ("False", "ReplacementFailed")
        assert "tgp.io/move" not in of(env, name)["metadata"]["annotations"]
        assert taints(env) == []
        env.node_bootstrap.node_faults.calm()
        watched.until(lambda: name not in names(env) and running(env) == 1, minutes=240)


def test_a_limit_holds_during_a_move():
    with sim_env("limit") as env:
        name = one_machine(env, limits={"resources": {"nodes": 1}})
        drift(env)
        watched = Watched(env)
        watched.until(lambda: disrupted(env, of(env, name))[1] == "LimitReached", minutes=20)
        env.world.run(minutes=30)

        assert names(env) == {name}
        assert watched.most_machines == 1
        assert "1 machine more is needed for about " in disrupted(env, of(env, name))[2]


def allow_no_eviction(env: SimEnv) -> None:
    meta = {"name": "guard", "namespace": "default"}
    spec = {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "serve"}}}
    env.world.api.local_api.create(POD_DISRUPTION_BUDGET, {"metadata": meta, "spec": spec})
    env.world.run(minutes=1)


def test_a_pod_disruption_budget_of_zero_keeps_a_move_from_beginning():
    with sim_env("pdb") as env:
        name = one_machine(env)
        allow_no_eviction(env)
        drift(env)
        env.world.run(minutes=30)

        assert names(env) == {name}
        assert disrupted(env, of(env, name))[:2] == ("False", "PodDisruptionBudget")
        env.world.api.local_api.delete(POD_DISRUPTION_BUDGET, "default", "guard")
        Watched(env).until(lambda: name not in names(env) and running(env) == 1)


def test_do_not_disrupt_keeps_a_drifted_machine_for_ever():
    with sim_env("protected") as env:
        name = one_machine(env, annotations={"tgp.io/do-not-disrupt": "true"})
        drift(env)
        env.world.run(minutes=30)

        assert names(env) == {name}
        assert disrupted(env, of(env, name))[:2] == ("False", "Protected")
        assert [reason for reason, _ in events_of(env, name) if reason.startswith("Disruption")] == [
            "DisruptionBlocked"
        ]


def test_an_annotation_that_cannot_be_read_protects_nothing_and_is_told_once():
    with sim_env("unreadable") as env:
        name = one_machine(env, annotations={"tgp.io/do-not-disrupt": "till friday"})
        (pod,) = [row["metadata"]["name"] for row in env.world.api.local_api.objects(POD) if serving(row)]
        drift(env)
        env.world.run(minutes=1)
        told = [message for reason, message in events_of(env, pod) if reason == "AnnotationIgnored"]
        assert len(told) == 1
        assert "'till friday' is neither" in told[0]
        Watched(env).until(lambda: name not in names(env))


def test_an_annotation_that_cannot_be_read_is_told_on_a_users_request_too():
    with sim_env("unreadable-user") as env:
        begin(env)
        env.wants(idleTimeout="10m")
        env.until(lambda: env.phase() == "Ready", minutes=30)
        change = {"metadata": {"annotations": {"tgp.io/do-not-disrupt": "for ever"}}}
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", change)
        env.world.run(minutes=5)
        told = [message for reason, message in events_of(env) if reason == "AnnotationIgnored"]
        assert len(told) == 1
        assert "'for ever' is neither" in told[0]
        env.until(lambda: env.living() == [], minutes=20)


def test_an_expired_machine_waits_for_do_not_disrupt_until_its_grace_ends():
    with sim_env("grace") as env:
        spec = {"disruption": {"expireAfter": "1h"}, "template": {"spec": {"terminationGracePeriod": "30m"}}}
        name = one_machine(env, annotations={"tgp.io/do-not-disrupt": "true"}, **spec)
        Watched(env).until(lambda: name not in names(env) and running(env) == 1, minutes=150)


def test_an_expired_machine_whose_pods_may_never_be_evicted_goes_when_its_grace_ends():
    with sim_env("grace-and-budget") as env:
        spec = {"disruption": {"expireAfter": "1h"}, "template": {"spec": {"terminationGracePeriod": "30m"}}}
        name = one_machine(env, **spec)
        allow_no_eviction(env)
        watched = Watched(env)
        watched.until(lambda: len(names(env)) == 2, minutes=75)
        env.world.run(minutes=25)
        assert name in names(env), "its pods are waited for"
        assert watched.least_running == 1
        watched.until(lambda: name not in names(env) and running(env) == 1, minutes=60)


def test_without_an_end_of_grace_do_not_disrupt_keeps_an_expired_machine():
    with sim_env("no-grace") as env:
        spec = {"disruption": {"expireAfter": "30m"}, "template": {"spec": {"terminationGracePeriod": "Never"}}}
        name = one_machine(env, annotations={"tgp.io/do-not-disrupt": "true"}, **spec)
        env.world.run(minutes=120)

        assert names(env) == {name}
        assert len(env.living()) == 1


# -- what is not known -------------------------------------------------------------------------------------------------


@pytest.fixture
def blind(monkeypatch):
    """While there is something in it, lists of pods are empty 200s."""
    held: list[bool] = []
    put = Store.replace

    async def replace(store, listed, version, *, rewound=False):
        shown = {} if held and store.resource is POD else listed
        await put(store, shown, version, rewound=rewound)

    monkeypatch.setattr(Store, "replace", replace)
    return held


@pytest.mark.parametrize("consolidate_after", ["0s", "10m"])
def test_a_new_leader_that_is_shown_no_pod_at_all_disrupts_nothing(blind, consolidate_after):
    """Everything looks idle to it."""
    with sim_env("blind") as env:
        name = one_machine(env, disruption={"consolidateAfter": consolidate_after, "budgets": [{"nodes": "100%"}]})
        blind.append(True)
        env.world.processes["operator-0"].crash(restart_after=5.0)
        drift(env)
        env.world.run(minutes=20)

        assert names(env) == {name}
        assert running(env) == 1
        assert disrupted(env, of(env, name)) == ("", "", "")
        blind.clear()
        env.world.processes["operator-0"].crash(restart_after=5.0)
        Watched(env).until(lambda: name not in names(env) and running(env) == 1)


def test_a_machine_goes_although_it_ran_the_last_pod_of_the_cluster():
    with sim_env("last") as env:
        name = one_machine(env, disruption={"consolidateAfter": "1m"})
        api = env.world.api.local_api
        for kind in (DAEMON_SET, DEPLOYMENT):
            for each in list(api.objects(kind)):
                api.delete(kind, each["metadata"]["namespace"], each["metadata"]["name"])
        Watched(env).until(lambda: not list(api.objects(POD)), minutes=10)

        Watched(env).until(lambda: name not in names(env), minutes=90)


def test_a_budget_opens_at_its_edge_though_nothing_else_changes():
    """It opens while no object changes."""
    with sim_env("edge") as env:  # it is 9:00
        closed = {"nodes": 0, "schedule": "0 0 * * *", "duration": "11h"}
        name = one_machine(env, disruption={"budgets": [{"nodes": 1}, closed]})
        drift(env)
        watched = Watched(env)
        watched.until(lambda: disrupted(env, of(env, name))[1] == "BudgetExhausted")
        assert "until 2026-01-05 11:00:00Z" in disrupted(env, of(env, name))[2]
        watched.until(lambda: name not in names(env) and running(env) == 1, minutes=180)
        assert env.world.clock.now().hour >= 11
