"""Histories of real failures: each is run once, with every invariant checked."""

from datetime import datetime, timedelta

import pytest

from tests.amounts import amount
from tests.sim.an_operator import ALONE, LONE, NAMESPACE_NAME, a_class, operator_main
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import CLASS, QUICK
from tests.sim.mutants.a_history import wipe
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE, SECRET
from tgp.app.settings import Settings
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.hold import HOLD
from tgp.core.model.token import cluster_prefix, plain_uid
from tgp.sim.apiserver.json_value import copied
from tgp.sim.checkers.objects import OVER, Quiet, loose_ends
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import WantedMachine
from tgp.sim.node_bootstrap import NodeFault

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
QUIET_MINUTES = amount(10, 30)
ASLEEP_HOURS = amount(1, 3)


def begin(env: SimEnv, *, replicas: int = 1, settings: Settings = LONE, **spec) -> None:
    a_class(env.world, CLASS, **spec)
    for number in range(replicas):
        env.world.process(f"tgp-{number}", operator_main(settings))
    env.world.run(minutes=1)


def ready(env: SimEnv, name: str = "train", **spec) -> None:
    env.wants(name, **{"idleTimeout": "Never", **spec})
    env.until(lambda: env.phase(name) == "Ready", minutes=30)


def all_is_well(env: SimEnv, *, after: float = 15) -> None:
    env.world.run(minutes=after)
    assert loose_ends(env.recorder) == []
    with Quiet(env.world):
        env.world.run(minutes=QUIET_MINUTES)


def saved(env: SimEnv, name: str = "train") -> dict:
    """What a backup keeps of a request."""
    obj = copied(env.request(name))
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        obj["metadata"].pop(field, None)
    return obj


def restore(env: SimEnv, obj: dict, *, with_status: bool) -> None:
    api, name = env.world.api.local_api, obj["metadata"]["name"]
    api.create(GPU_REQUEST, {**copied(obj), "status": {}})
    if with_status:
        api.merge_patch(GPU_REQUEST, "default", name, {"status": obj["status"]}, "status")


def strip(env: SimEnv, name: str = "train") -> None:
    """A user removes the finalizer by force and deletes the object."""
    env.recorder.forced[plain_uid(env.request(name)["metadata"]["uid"])] = None
    env.drops(name)
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"metadata": {"finalizers": None}})


# -- keys and accounts -------------------------------------------------------------------------------------------------


def test_a_key_for_another_account_makes_machines_unknown_and_never_gone():
    with sim_env("rotated", "vultr", kubelets=QUICK) as env:
        begin(env, providers=[{"name": "vultr"}])
        ready(env, gpuType="A16")
        accounts, (machine,) = env.simulator.fleet.accounts, env.living()
        other = accounts.other_than(machine.account)
        accounts.hand_over(env.simulator.key, other.id)
        env.world.run(hours=2)

        assert len(env.attempts()) == 1
        assert [one.id for one in env.living()] == [machine.id]
        assert env.condition("ProviderReachable")[:2] == ("False", "AccountChanged")

        accounts.hand_over(env.simulator.key, machine.account)
        env.world.run(minutes=20)
        assert env.phase() == "Ready"
        env.drops()
        env.until(lambda: env.request() is None, minutes=30)
        all_is_well(env)


def test_the_secret_of_the_credentials_stays_while_a_machine_needs_it():
    with sim_env("secret", "vultr", kubelets=QUICK) as env:
        begin(env, providers=[{"name": "vultr"}])
        ready(env, gpuType="A16")
        env.world.api.local_api.delete(SECRET, NAMESPACE_NAME, "tgp-operator-secret")
        env.world.run(minutes=10)
        assert env.world.api.local_api.get(SECRET, NAMESPACE_NAME, "tgp-operator-secret") is not None
        env.drops()
        env.until(lambda: env.request() is None, minutes=30)

        assert env.living() == []
        env.until(lambda: env.world.api.local_api.get(SECRET, NAMESPACE_NAME, "tgp-operator-secret") is None)


def test_a_class_that_is_deleted_waits_for_its_machines():
    with sim_env("class", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        env.world.api.local_api.delete(GPU_NODE_CLASS, "", CLASS)
        env.world.run(minutes=10)
        assert env.phase() == "Ready"
        assert env.world.api.local_api.get(GPU_NODE_CLASS, "", CLASS) is not None
        env.drops()
        env.until(lambda: env.request() is None, minutes=30)

        assert env.living() == []
        env.until(lambda: env.world.api.local_api.get(GPU_NODE_CLASS, "", CLASS) is None)


# -- copies and wipes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_status", [True, False])
def test_a_request_restored_from_a_backup_buys_nothing(with_status):
    """The original was stripped and is gone; its machine is an orphan, and the copy does not get another."""
    with sim_env(f"restored-{with_status}", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        backup = saved(env)
        assert UID_ANNOTATION in backup["metadata"]["annotations"]
        strip(env)
        restore(env, backup, with_status=with_status)
        env.world.run(hours=1)

        assert env.condition("Restored")[0] == "True"
        assert env.living() == []
        assert len(env.simulator.fleet.machines) == 1
        env.drops()
        env.until(lambda: env.request() is None, minutes=30)
        all_is_well(env)


def test_a_machine_whose_status_was_wiped_is_adopted_again_also_by_a_new_process():
    with sim_env("wiped", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        (machine,) = env.living()
        (before,) = env.attempts()
        status = dict.fromkeys(env.request()["status"])
        env.world.processes["tgp-0"].crash(restart_after=60)  # no process remembers it either
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"status": status}, "status")
        env.until(lambda: env.phase() == "Ready", minutes=60)

        (after,) = env.attempts()
        same = ("number", "token", "instanceId", "credentials", "settings", "account", "outcome")
        assert {name: after.get(name) for name in same} == {name: before.get(name) for name in same}
        assert after["offer"] == before["offer"], "what is on sale tells what was bought"
        assert abs(_moment(after["launchedAt"]) - _moment(before["launchedAt"])) < timedelta(seconds=5)
        assert [one.id for one in env.simulator.fleet.machines.values()] == [machine.id]
        all_is_well(env)


def _moment(text):
    return datetime.fromisoformat(text)


def test_what_is_over_buys_nothing_again_when_its_status_is_wiped():
    with sim_env("wiped at last", kubelets=QUICK) as env:
        begin(env)
        ready(env, maxLifetime="1h")
        env.until(lambda: env.phase() == "Finished" and not env.request()["metadata"].get("finalizers"), minutes=90)
        env.world.processes["tgp-0"].crash(restart_after=60)  # no process remembers it either
        status = dict.fromkeys(env.request()["status"])
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"status": status}, "status")
        env.world.run(hours=1)

        assert len(env.simulator.fleet.machines) == 1
        assert env.phase() == "Finished"
        assert env.condition("Ended")[:2] == ("True", "RecordLost")
        all_is_well(env)


def test_a_finalizer_that_is_stripped_leaves_an_orphan_that_is_terminated():
    with sim_env("stripped", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        strip(env)
        env.until(lambda: env.living() == [], minutes=6)
        env.until(lambda: env.nodes() == [], minutes=15)
        all_is_well(env)


def test_a_finalizer_that_is_stripped_from_a_living_request_is_put_back():
    with sim_env("put back", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        env.recorder.forced[plain_uid(env.request()["metadata"]["uid"])] = None
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        env.world.run(minutes=2)

        assert env.request()["metadata"]["finalizers"] == [FINALIZER]
        assert env.phase() == "Ready"
        assert len(env.simulator.fleet.machines) == 1


# -- neighbours --------------------------------------------------------------------------------------------------------


def test_two_clusters_on_one_account_leave_each_other_alone():
    with sim_env("neighbours", kubelets=QUICK) as env:
        fleet = env.simulator.fleet
        tenant = fleet.accounts.of("")
        theirs = f"{cluster_prefix('0123456789')}{'ab' * 16}-1"
        fleet.rent(tenant, WantedMachine("t4.1@us-west-1", theirs, tags=(("tgp.io/cluster", "0123456789"),)))
        fleet.add_foreign(tenant, 3)
        begin(env)
        ready(env)
        env.world.run(hours=1)
        env.drops()
        env.until(lambda: env.request() is None, minutes=30)
        env.world.run(hours=1)

        assert [machine.name for machine in env.living()] == [theirs]
        assert sum(machine.foreign for machine in fleet.living()) == 3


def test_tags_of_a_class_never_win_over_the_marks_of_ownership():
    with sim_env("tags", kubelets=QUICK) as env:
        begin(env)
        for name in ("tgp.io/token", "tgp-token", "tgp.io/cluster", "tgp.io/request-uid", "name", "Name"):
            spec = {"tags": {name: "another-owners"}}
            try:
                env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", CLASS, {"spec": spec})
            except Exception:  # noqa: BLE001, S112 - a reserved key is refused at the door, which is as good
                continue
        env.wants(idleTimeout="Never")
        env.world.run(minutes=20)
        for machine in env.living():
            token = env.attempts()[-1]["token"]
            assert token in (machine.name, *machine.tags.values())
        env.drops()
        env.until(lambda: env.request() is None, minutes=30)
        all_is_well(env)


def test_a_foreign_writer_during_the_launch_costs_no_second_machine():
    with sim_env("meddler", kubelets=QUICK) as env:
        begin(env)
        api = env.world.api.local_api
        env.wants(idleTimeout="Never")
        for number in range(600):
            if env.request() is not None and number % 2 == 0:
                note = {"metadata": {"annotations": {"meddler": str(number)}}}
                api.merge_patch(GPU_REQUEST, "default", "train", note)
            env.world.run(seconds=0.05 if number < 400 else 1.0)
        env.until(lambda: env.phase() == "Ready", minutes=30)

        assert len(env.simulator.fleet.machines) == 1
        env.drops()
        env.until(lambda: env.request() is None, minutes=30)
        all_is_well(env)


def test_a_newer_definition_does_not_blind_an_older_replica():
    """Unknown fields are kept; an unreadable object still owns its machine and counts."""
    with sim_env("newer", kubelets=QUICK) as env:
        begin(env, limits={"maxNodes": 1})
        ready(env)
        _open_the_schema(env)
        api = env.world.api.local_api
        api.merge_patch(GPU_REQUEST, "default", "train", {"spec": {"fromTheFuture": {"x": 1}}})
        api.merge_patch(GPU_REQUEST, "default", "train", {"status": {"alsoNew": ["y"]}}, "status")
        env.world.run(minutes=10)
        assert env.phase() == "Ready"
        assert env.request()["status"]["alsoNew"] == ["y"]

        api.merge_patch(GPU_REQUEST, "default", "train", {"spec": {"gpuCount": "two, please"}})  # unreadable to us
        env.wants("second", idleTimeout="Never")
        env.world.run(hours=1)
        assert len(env.living()) == 1
        assert env.phase("second") == "Pending"
        assert env.condition("Launched", "second")[1] == "LimitReached"


@pytest.mark.parametrize("end", ["deleted", "expired"])
def test_a_request_that_cannot_be_decoded_still_ends(end):
    """Its machine goes when its owner deletes it, and when its life is over; nothing is bought for it again."""
    with sim_env(f"undecodable {end}", kubelets=QUICK) as env:
        begin(env)
        ready(env, maxLifetime="2h", restartPolicy="OnLoss")
        _open_the_schema(env)
        api = env.world.api.local_api
        api.merge_patch(GPU_REQUEST, "default", "train", {"spec": {"gpuCount": "two, please"}})
        env.world.run(minutes=30)
        assert len(env.living()) == 1
        if end == "deleted":
            env.drops()
            env.until(lambda: env.request() is None, minutes=20)
        else:
            env.world.run(hours=2)
            assert env.phase() == "Finished"
        assert env.living() == []
        assert len(env.simulator.fleet.machines) == 1


def _open_the_schema(env: SimEnv) -> None:
    """As a newer version's definition would: anything goes."""
    api, name = env.world.api.local_api, "gpurequests.tgp.io"
    crd = copied(api.get(CUSTOM_RESOURCE_DEFINITION, "", name))
    for version in crd["spec"]["versions"]:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"] = {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": dict(anything)}}
        }
    api.update(CUSTOM_RESOURCE_DEFINITION, crd)


# -- lists that lie ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cloud_fault", [CloudFault.LIST_GONE, CloudFault.HTML, CloudFault.EMPTY_BODY, CloudFault.LIST_NOTHING]
)
def test_a_provider_that_shows_nothing_makes_no_process_forget_or_buy(cloud_fault):
    with sim_env(f"blind-{cloud_fault}", kubelets=QUICK) as env:
        begin(env)
        for name in ("one", "two"):
            ready(env, name)
        env.simulator.faults.aim(cloud_fault, CloudVerb.LIST, times=200)
        env.world.run(hours=1)
        assert len(env.living()) == len(env.simulator.fleet.machines) == 2
        env.simulator.faults.calm()
        env.world.run(minutes=20)

        assert [env.phase(name) for name in ("one", "two")] == ["Ready", "Ready"]
        all_is_well(env)


@pytest.mark.parametrize("fault", ["watch-gone", "watch-gone-inside"])
def test_an_api_server_that_compacts_its_history_makes_no_process_forget(fault):
    with sim_env(f"compacted-{fault}", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        env.world.api.faults.on(fault, probability=0.7)
        env.wants("second", idleTimeout="Never")
        env.world.run(minutes=30)
        env.world.api.faults.off()
        env.until(lambda: env.phase("second") == "Ready", minutes=30)

        assert len(env.simulator.fleet.machines) == 2
        all_is_well(env)


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [HOUR, -DAY, None, -HOUR, DAY][: amount(3, 5)], ids=str)
def test_a_wall_clock_that_jumps_ends_nothing(jump):
    """None: it stands still. The operator's own clock follows the API server's."""
    with sim_env(f"clock-{jump}", kubelets=QUICK) as env:
        begin(env)
        ready(env, "used", maxLifetime="6h", idleTimeout="2h")
        clock = env.world.processes["tgp-0"].clock
        if jump is None:
            clock.freeze()
        else:
            clock.jump(jump)
        env.wants("later", maxLifetime="6h", idleTimeout="2h")
        env.world.run(minutes=90)
        assert env.phase("used") == "Ready"
        assert env.phase("later") == "Ready"
        clock.right()
        env.until(lambda: env.phase("used") in OVER and env.phase("later") in OVER, minutes=240)

        assert env.condition("Ended", "used")[1] == "Idle"
        assert len(env.simulator.fleet.machines) == 2


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_machine_that_sleeps_for_hours_wakes_up_a_stranger(replicas):
    """The host of the leader is suspended in the middle of a purchase: its boot clock counts on."""
    with sim_env(f"suspended-{replicas}", kubelets=QUICK) as env:
        begin(env, replicas=replicas, settings=Settings())
        env.wants(idleTimeout="Never")
        env.world.run(seconds=0.4)
        for process in list(env.world.processes.values())[:1]:
            process.pause(ASLEEP_HOURS * 3600)
        env.world.run(hours=ASLEEP_HOURS, minutes=30)

        assert env.phase() == "Ready"
        assert len(env.living()) == 1
        all_is_well(env)


def test_no_machine_is_idle_by_an_old_view():
    """Watches fall silent, a pod comes, the idle time ends: pods are listed again before anything is terminated."""
    with sim_env("old view", kubelets=QUICK) as env:
        begin(env, settings=Settings())
        ready(env, idleTimeout="5m")
        ends = datetime.fromisoformat(env.request()["status"]["idleSince"]) + timedelta(minutes=5)
        env.world.run(seconds=(ends - env.world.clock.now()).total_seconds() - 20)
        env.world.processes["tgp-0"].host.frozen_until = env.world.loop.time() + 55
        env.works(run_for="10m")
        env.world.run(minutes=3)

        assert env.phase() == "Ready"
        assert len(env.running_pods()) == 1
        env.until(lambda: env.phase() in OVER, minutes=30)


# -- limits and brakes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"maxNodes": 3}, {"maxHourlyCost": "1.50"}], ids=str)
def test_sixty_four_requests_at_once_stay_within_the_limits_across_a_hand_over(limits):
    with sim_env(f"crowd-{limits}", kubelets=QUICK) as env:
        settings = Settings(workers=64)
        begin(env, replicas=2, settings=settings, limits=limits)
        for number in range(64):
            env.wants(f"r{number}", idleTimeout="Never")
        env.world.run(seconds=1.5)
        for process in env.world.processes.values():
            process.crash(restart_after=2)
        env.world.run(minutes=30)

        phases = [env.phase(f"r{number}") for number in range(64)]
        assert phases.count("Ready") == 3
        assert phases.count("Pending") == 61
        assert {env.condition("Launched", f"r{n}")[1] for n, phase in enumerate(phases) if phase == "Pending"} == {
            "LimitReached"
        }
        for number in [n for n, phase in enumerate(phases) if phase == "Ready"]:
            env.drops(f"r{number}")
        env.until(
            lambda: sum(env.phase(f"r{number}") == "Ready" for number in range(64)) == 3,
            minutes=30,
        )


def test_a_hold_stops_every_purchase_and_no_return():
    with sim_env("held", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        api = env.world.api.local_api
        api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, {"metadata": {"annotations": {HOLD: "a test"}}})
        env.world.run(seconds=30)
        env.wants("second", idleTimeout="Never")
        env.drops()
        env.until(lambda: env.request() is None, minutes=30)
        env.world.run(minutes=30)
        assert env.condition("Launched", "second")[1] == "PurchasesPaused"
        assert env.living() == []

        api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, {"metadata": {"annotations": {HOLD: None}}})
        env.until(lambda: env.phase("second") == "Ready", minutes=30)


def test_a_suspended_class_sells_nothing_and_takes_back():
    with sim_env("class held", kubelets=QUICK) as env:
        begin(env)
        ready(env)
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", CLASS, {"spec": {"suspend": True}})
        env.world.run(seconds=30)
        env.wants("second", idleTimeout="Never")
        env.drops()
        env.until(lambda: env.request() is None, minutes=30)
        env.world.run(minutes=30)

        assert env.condition("Launched", "second")[1] == "Suspended"
        assert env.living() == []


def test_machines_that_never_join_cost_no_more_than_a_few_tries_in_a_day():
    """Five tries of half an hour at the most, of the most expensive that was tried; then nothing."""
    with sim_env("runaway", kubelets=QUICK) as env:
        begin(env, settings=ALONE)
        env.node_bootstrap.node_faults.chances[NodeFault.NEVER_REGISTERS] = 1.0
        env.wants(idleTimeout="Never")
        env.world.run(hours=amount(4, 24))

        machines = env.simulator.fleet.machines.values()
        dearest = max(machine.rate_microusd for machine in machines)
        assert env.phase() == "Failed"
        assert len(machines) <= 5
        assert sum(machine.cost_microusd(env.world.clock.now()) for machine in machines) <= 5 * dearest * 0.6
        assert env.living() == []


@pytest.mark.parametrize("deleted", [True, False], ids=["then deleted", "and wanted on"])
def test_a_request_is_wiped_beside_a_provider_that_never_had_a_key(deleted):
    """No list of that provider will come, and nothing was ever ordered there: it is not waited for."""
    with sim_env("keyless neighbour", kubelets=QUICK) as env:
        begin(env, providers=[{"name": "simulated"}, {"name": "vultr"}])
        ready(env)
        (machine,) = env.living()
        env.simulator.fleet.end(machine)
        wipe(env)
        if deleted:
            env.drops()
            env.until(lambda: env.request() is None, minutes=15)
        else:
            env.until(lambda: len(env.living()) == 1 and env.phase("train") == "Ready", minutes=20)
            assert env.attempts()[-1]["number"] > 1, "the number of an earlier attempt was used again"
