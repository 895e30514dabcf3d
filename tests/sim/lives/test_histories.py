"""Histories that happened to somebody: each is played once, with every invariant watched."""

import os
from datetime import datetime, timedelta

import pytest

from tests.sim.an_operator import NAMESPACE_NAME, a_class, operator_main
from tests.sim.lives.an_estate import Lives, lives
from tests.sim.lives.reference import BRISK, CLASS, QUICK
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE, SECRET
from tgp.app.settings import Settings
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION
from tgp.core.model.hold import HOLD
from tgp.core.model.token import cluster_prefix, plain_uid
from tgp.sim.apiserver.json_value import copied
from tgp.sim.checkers.objects import OVER, Quiet, loose_ends
from tgp.sim.clouds.fleet import Wanted
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.sim.estate import Ailment

HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def begin(stage: Lives, *, replicas: int = 1, settings: Settings = BRISK, **spec) -> None:
    a_class(stage.world, CLASS, **spec)
    for number in range(replicas):
        stage.world.process(f"tgp-{number}", operator_main(settings))
    stage.world.run(minutes=1)


def ready(stage: Lives, name: str = "train", **spec) -> None:
    stage.wants(name, **{"idleTimeout": "Never", **spec})
    stage.until(lambda: stage.phase(name) == "Ready", minutes=30)


def all_is_well(stage: Lives, *, after: float = 15) -> None:
    stage.world.run(minutes=after)
    assert loose_ends(stage.witness) == []
    with Quiet(stage.world):
        stage.world.run(minutes=30)


def saved(stage: Lives, name: str = "train") -> dict:
    """What a backup keeps of a request."""
    obj = copied(stage.request(name))
    for field in ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"):
        obj["metadata"].pop(field, None)
    return obj


def restore(stage: Lives, obj: dict, *, with_status: bool) -> None:
    api, name = stage.world.api.backstage, obj["metadata"]["name"]
    api.create(GPU_REQUEST, {**copied(obj), "status": {}})
    if with_status:
        api.merge_patch(GPU_REQUEST, "default", name, {"status": obj["status"]}, "status")


def strip(stage: Lives, name: str = "train") -> None:
    """Somebody takes the finalizer off by force and deletes the object."""
    stage.witness.forced[plain_uid(stage.request(name)["metadata"]["uid"])] = None
    stage.drops(name)
    stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", name, {"metadata": {"finalizers": None}})


# -- keys and accounts -------------------------------------------------------------------------------------------------


def test_a_key_for_another_account_makes_machines_unknown_and_never_gone():
    with lives("rotated", "vultr", kubelets=QUICK) as stage:
        begin(stage, providers=[{"name": "vultr"}])
        ready(stage, gpuType="A16")
        accounts, (machine,) = stage.shop.fleet.accounts, stage.living()
        other = accounts.other_than(machine.account)
        accounts.hand_over(stage.shop.key, other.id)
        stage.world.run(hours=2)

        assert len(stage.attempts()) == 1
        assert [one.id for one in stage.living()] == [machine.id]
        assert stage.condition("ProviderReachable")[:2] == ("False", "AccountChanged")

        accounts.hand_over(stage.shop.key, machine.account)
        stage.world.run(minutes=20)
        assert stage.phase() == "Ready"
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=30)
        all_is_well(stage)


def test_the_secret_of_the_credentials_stays_while_a_machine_needs_it():
    with lives("secret", "vultr", kubelets=QUICK) as stage:
        begin(stage, providers=[{"name": "vultr"}])
        ready(stage, gpuType="A16")
        stage.world.api.backstage.delete(SECRET, NAMESPACE_NAME, "tgp-operator-secret")
        stage.world.run(minutes=10)
        assert stage.world.api.backstage.get(SECRET, NAMESPACE_NAME, "tgp-operator-secret") is not None
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=30)

        assert stage.living() == []
        stage.until(lambda: stage.world.api.backstage.get(SECRET, NAMESPACE_NAME, "tgp-operator-secret") is None)


def test_a_class_that_is_deleted_waits_for_its_machines():
    with lives("class", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        stage.world.api.backstage.delete(GPU_NODE_CLASS, "", CLASS)
        stage.world.run(minutes=10)
        assert stage.phase() == "Ready"
        assert stage.world.api.backstage.get(GPU_NODE_CLASS, "", CLASS) is not None
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=30)

        assert stage.living() == []
        stage.until(lambda: stage.world.api.backstage.get(GPU_NODE_CLASS, "", CLASS) is None)


# -- copies and wipes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_status", [True, False])
def test_a_request_restored_from_a_backup_buys_nothing(with_status):
    """The original was stripped and is gone; its machine is nobody's, and the copy does not get another."""
    with lives(f"restored-{with_status}", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        backup = saved(stage)
        assert UID_ANNOTATION in backup["metadata"]["annotations"]
        strip(stage)
        restore(stage, backup, with_status=with_status)
        stage.world.run(hours=1)

        assert stage.condition("Restored")[0] == "True"
        assert stage.living() == []
        assert len(stage.shop.fleet.machines) == 1
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=30)
        all_is_well(stage)


def test_a_machine_whose_status_was_wiped_is_adopted_again_also_by_a_new_process():
    with lives("wiped", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        (machine,) = stage.living()
        (before,) = stage.attempts()
        status = dict.fromkeys(stage.request()["status"])
        stage.world.processes["tgp-0"].crash(restart_after=60)  # nobody remembers it either
        stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", "train", {"status": status}, "status")
        stage.until(lambda: stage.phase() == "Ready", minutes=60)

        (after,) = stage.attempts()
        same = ("number", "token", "instanceId", "credentials", "settings", "account", "outcome")
        assert {name: after.get(name) for name in same} == {name: before.get(name) for name in same}
        assert after["offer"] == before["offer"], "what is on sale tells what was bought"
        assert abs(_moment(after["launchedAt"]) - _moment(before["launchedAt"])) < timedelta(seconds=5)
        assert [one.id for one in stage.shop.fleet.machines.values()] == [machine.id]
        all_is_well(stage)


def _moment(text):
    return datetime.fromisoformat(text)


def test_what_is_over_buys_nothing_again_when_its_status_is_wiped():
    with lives("wiped at last", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage, maxLifetime="1h")
        stage.until(
            lambda: stage.phase() == "Finished" and not stage.request()["metadata"].get("finalizers"), minutes=90
        )
        stage.world.processes["tgp-0"].crash(restart_after=60)  # nobody remembers it either
        status = dict.fromkeys(stage.request()["status"])
        stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", "train", {"status": status}, "status")
        stage.world.run(hours=1)

        assert len(stage.shop.fleet.machines) == 1
        assert stage.phase() == "Finished"
        assert stage.condition("Ended")[:2] == ("True", "RecordLost")
        all_is_well(stage)


def test_a_finalizer_that_is_stripped_leaves_an_orphan_that_is_given_back():
    with lives("stripped", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        strip(stage)
        stage.until(lambda: stage.living() == [], minutes=6)
        stage.until(lambda: stage.nodes() == [], minutes=15)
        all_is_well(stage)


def test_a_finalizer_that_is_stripped_from_a_living_request_is_put_back():
    with lives("put back", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        stage.witness.forced[plain_uid(stage.request()["metadata"]["uid"])] = None
        stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        stage.world.run(minutes=2)

        assert stage.request()["metadata"]["finalizers"] == [FINALIZER]
        assert stage.phase() == "Ready"
        assert len(stage.shop.fleet.machines) == 1


# -- neighbours --------------------------------------------------------------------------------------------------------


def test_two_clusters_on_one_account_leave_each_other_alone():
    with lives("neighbours", kubelets=QUICK) as stage:
        fleet = stage.shop.fleet
        tenant = fleet.accounts.of("")
        theirs = f"{cluster_prefix('0123456789')}{'ab' * 16}-1"
        fleet.rent(tenant, Wanted("t4.1@us-west-1", theirs, tags=(("tgp.io/cluster", "0123456789"),)))
        fleet.add_foreign(tenant, 3)
        begin(stage)
        ready(stage)
        stage.world.run(hours=1)
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=30)
        stage.world.run(hours=1)

        assert [machine.name for machine in stage.living()] == [theirs]
        assert sum(machine.foreign for machine in fleet.living()) == 3


def test_tags_of_a_class_never_win_over_the_marks_of_ownership():
    with lives("tags", kubelets=QUICK) as stage:
        begin(stage)
        for name in ("tgp.io/token", "tgp-token", "tgp.io/cluster", "tgp.io/request-uid", "name", "Name"):
            spec = {"tags": {name: "somebody-elses"}}
            try:
                stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", CLASS, {"spec": spec})
            except Exception:  # noqa: BLE001, S112 - a reserved key is refused at the door, which is as good
                continue
        stage.wants(idleTimeout="Never")
        stage.world.run(minutes=20)
        for machine in stage.living():
            token = stage.attempts()[-1]["token"]
            assert token in (machine.name, *machine.tags.values())
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=30)
        all_is_well(stage)


def test_a_foreign_writer_during_the_launch_costs_no_second_machine():
    with lives("meddler", kubelets=QUICK) as stage:
        begin(stage)
        api = stage.world.api.backstage
        stage.wants(idleTimeout="Never")
        for number in range(600):
            if stage.request() is not None and number % 2 == 0:
                note = {"metadata": {"annotations": {"meddler": str(number)}}}
                api.merge_patch(GPU_REQUEST, "default", "train", note)
            stage.world.run(seconds=0.05 if number < 400 else 1.0)
        stage.until(lambda: stage.phase() == "Ready", minutes=30)

        assert len(stage.shop.fleet.machines) == 1
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=30)
        all_is_well(stage)


def test_a_newer_definition_does_not_blind_an_older_replica():
    """Fields nobody here knows are kept; an object nobody can read still owns its machine and counts."""
    with lives("newer", kubelets=QUICK) as stage:
        begin(stage, limits={"maxNodes": 1})
        ready(stage)
        _open_the_schema(stage)
        api = stage.world.api.backstage
        api.merge_patch(GPU_REQUEST, "default", "train", {"spec": {"fromTheFuture": {"x": 1}}})
        api.merge_patch(GPU_REQUEST, "default", "train", {"status": {"alsoNew": ["y"]}}, "status")
        stage.world.run(minutes=10)
        assert stage.phase() == "Ready"
        assert stage.request()["status"]["alsoNew"] == ["y"]

        api.merge_patch(GPU_REQUEST, "default", "train", {"spec": {"gpuCount": "two, please"}})  # unreadable to us
        stage.wants("second", idleTimeout="Never")
        stage.world.run(hours=1)
        assert len(stage.living()) == 1
        assert stage.phase("second") == "Pending"
        assert stage.condition("Launched", "second")[1] == "LimitReached"


@pytest.mark.parametrize("end", ["deleted", "expired"])
def test_a_request_that_cannot_be_decoded_still_ends(end):
    """Its machine goes when its owner deletes it, and when its life is over; nothing is bought for it again."""
    with lives(f"undecodable {end}", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage, maxLifetime="2h", restartPolicy="OnLoss")
        _open_the_schema(stage)
        api = stage.world.api.backstage
        api.merge_patch(GPU_REQUEST, "default", "train", {"spec": {"gpuCount": "two, please"}})
        stage.world.run(minutes=30)
        assert len(stage.living()) == 1
        if end == "deleted":
            stage.drops()
            stage.until(lambda: stage.request() is None, minutes=20)
        else:
            stage.world.run(hours=2)
            assert stage.phase() == "Finished"
        assert stage.living() == []
        assert len(stage.shop.fleet.machines) == 1


def _open_the_schema(stage: Lives) -> None:
    """As a newer version's definition would: anything goes."""
    api, name = stage.world.api.backstage, "gpurequests.tgp.io"
    crd = copied(api.get(CUSTOM_RESOURCE_DEFINITION, "", name))
    for version in crd["spec"]["versions"]:
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version["schema"] = {
            "openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": dict(anything)}}
        }
    api.update(CUSTOM_RESOURCE_DEFINITION, crd)


# -- lists that lie ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mishap", [Mishap.LIST_GONE, Mishap.HTML, Mishap.EMPTY_BODY, Mishap.LIST_NOTHING])
def test_a_provider_that_shows_nothing_makes_nobody_forget_or_buy(mishap):
    with lives(f"blind-{mishap}", kubelets=QUICK) as stage:
        begin(stage)
        for name in ("one", "two"):
            ready(stage, name)
        stage.shop.mishaps.aim(mishap, Verb.LIST, times=200)
        stage.world.run(hours=1)
        assert len(stage.living()) == len(stage.shop.fleet.machines) == 2
        stage.shop.mishaps.calm()
        stage.world.run(minutes=20)

        assert [stage.phase(name) for name in ("one", "two")] == ["Ready", "Ready"]
        all_is_well(stage)


@pytest.mark.parametrize("fault", ["watch-gone", "watch-gone-inside"])
def test_an_api_server_that_compacts_its_history_makes_nobody_forget(fault):
    with lives(f"compacted-{fault}", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        stage.world.api.faults.on(fault, probability=0.7)
        stage.wants("second", idleTimeout="Never")
        stage.world.run(minutes=30)
        stage.world.api.faults.off()
        stage.until(lambda: stage.phase("second") == "Ready", minutes=30)

        assert len(stage.shop.fleet.machines) == 2
        all_is_well(stage)


# -- time --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [HOUR, -HOUR, DAY, -DAY, None], ids=str)
def test_a_wall_clock_that_jumps_ends_nothing(jump):
    """None: it stands still. The operator's own clock follows the API server's."""
    with lives(f"clock-{jump}", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage, "used", maxLifetime="6h", idleTimeout="2h")
        clock = stage.world.processes["tgp-0"].clock
        if jump is None:
            clock.freeze()
        else:
            clock.jump(jump)
        stage.wants("later", maxLifetime="6h", idleTimeout="2h")
        stage.world.run(minutes=90)
        assert stage.phase("used") == "Ready"
        assert stage.phase("later") == "Ready"
        clock.right()
        stage.until(lambda: stage.phase("used") in OVER and stage.phase("later") in OVER, minutes=240)

        assert stage.condition("Ended", "used")[1] == "Idle"
        assert len(stage.shop.fleet.machines) == 2


@pytest.mark.parametrize("replicas", [1, 2])
def test_a_machine_that_sleeps_for_hours_wakes_up_a_stranger(replicas):
    """The host of the leader is suspended in the middle of a purchase: its boot clock counts on."""
    with lives(f"suspended-{replicas}", kubelets=QUICK) as stage:
        begin(stage, replicas=replicas)
        stage.wants(idleTimeout="Never")
        stage.world.run(seconds=0.4)
        for process in list(stage.world.processes.values())[:1]:
            process.pause(3 * 3600)
        stage.world.run(hours=4)

        assert stage.phase() == "Ready"
        assert len(stage.living()) == 1
        all_is_well(stage)


def test_nobody_is_idle_by_an_old_view():
    """Watches fall silent, a pod comes, the idle time ends: pods are listed anew before anything is given back."""
    with lives("old view", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage, idleTimeout="5m")
        ends = datetime.fromisoformat(stage.request()["status"]["idleSince"]) + timedelta(minutes=5)
        stage.world.run(seconds=(ends - stage.world.clock.now()).total_seconds() - 20)
        stage.world.processes["tgp-0"].host.frozen_until = stage.world.loop.time() + 55
        stage.works(run_for="10m")
        stage.world.run(minutes=3)

        assert stage.phase() == "Ready"
        assert len(stage.running_pods()) == 1
        stage.until(lambda: stage.phase() in OVER, minutes=30)


# -- limits and brakes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limits", [{"maxNodes": 3}, {"maxHourlyCost": "1.50"}], ids=str)
def test_sixty_four_requests_at_once_stay_within_the_limits_across_a_hand_over(limits):
    with lives(f"crowd-{limits}", kubelets=QUICK) as stage:
        settings = Settings(workers=64, retry_period=timedelta(seconds=4))
        begin(stage, replicas=2, settings=settings, limits=limits)
        for number in range(64):
            stage.wants(f"r{number}", idleTimeout="Never")
        stage.world.run(seconds=1.5)
        for process in stage.world.processes.values():
            process.crash(restart_after=2)
        stage.world.run(minutes=30)

        phases = [stage.phase(f"r{number}") for number in range(64)]
        assert phases.count("Ready") == 3
        assert phases.count("Pending") == 61
        assert {stage.condition("Launched", f"r{n}")[1] for n, phase in enumerate(phases) if phase == "Pending"} == {
            "LimitReached"
        }
        for number in [n for n, phase in enumerate(phases) if phase == "Ready"]:
            stage.drops(f"r{number}")
        stage.until(
            lambda: sum(stage.phase(f"r{number}") == "Ready" for number in range(64)) == 3,
            minutes=30,
        )


def test_a_hold_stops_every_purchase_and_no_return():
    with lives("held", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        api = stage.world.api.backstage
        api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, {"metadata": {"annotations": {HOLD: "a test"}}})
        stage.world.run(seconds=30)
        stage.wants("second", idleTimeout="Never")
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=30)
        stage.world.run(minutes=30)
        assert stage.condition("Launched", "second")[1] == "Held"
        assert stage.living() == []

        api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, {"metadata": {"annotations": {HOLD: None}}})
        stage.until(lambda: stage.phase("second") == "Ready", minutes=30)


def test_a_suspended_class_sells_nothing_and_takes_back():
    with lives("class held", kubelets=QUICK) as stage:
        begin(stage)
        ready(stage)
        stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", CLASS, {"spec": {"suspend": True}})
        stage.world.run(seconds=30)
        stage.wants("second", idleTimeout="Never")
        stage.drops()
        stage.until(lambda: stage.request() is None, minutes=30)
        stage.world.run(minutes=30)

        assert stage.condition("Launched", "second")[1] == "Suspended"
        assert stage.living() == []


def test_machines_that_never_join_cost_no_more_than_a_few_tries_in_a_day():
    """Five tries of half an hour at the most, of the dearest that was tried; then nothing."""
    with lives("runaway", kubelets=QUICK) as stage:
        begin(stage, settings=Settings(leader_elect=False))  # one replica, and a long day
        stage.estate.ailments.chances[Ailment.NEVER_REGISTERS] = 1.0
        stage.wants(idleTimeout="Never")
        stage.world.run(hours=24 if os.environ.get("TGP_PLANS") == "all" else 8)

        machines = stage.shop.fleet.machines.values()
        dearest = max(machine.rate_microusd for machine in machines)
        assert stage.phase() == "Failed"
        assert len(machines) <= 5
        assert sum(machine.cost_microusd(stage.world.clock.now()) for machine in machines) <= 5 * dearest * 0.6
        assert stage.living() == []
