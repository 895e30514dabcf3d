"""A hostile tenant forges specs and statuses: nothing of others is read, called or touched."""

from tests.amounts import amount
from tests.sim.an_operator import a_class, create, operator_main
from tests.sim.forging import lost_status
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.hostile import Hostile
from tests.sim.lifecycle.reference import QUICK
from tgp.api.resource import GPU_REQUEST, NAMESPACE

FORGERIES = amount(30, 500, "TGP_FORGERIES")


def test_whatever_a_tenant_writes_concerns_no_other_tenant():
    with sim_env("hostile", "simulated", "vultr", kubelets=QUICK, invariants=()) as env:
        hostile = Hostile(env)
        hostile.forge(FORGERIES)
        hostile.judge()


def test_forged_machines_are_no_outage_that_keeps_a_lost_machine_on_the_bill():
    with sim_env("no-outage", "simulated", "vultr", kubelets=QUICK, invariants=()) as env:
        hostile = Hostile(env)
        node = env.request("train")["status"]["nodeName"]
        lost = {row["instanceId"] for row in env.attempts("train")}
        env.world.cluster.power_off(node)
        for _ in range(40):
            hostile.claim_machines(6)
            env.world.run(seconds=30)

        living = {one.id for simulator in env.simulators.values() for one in simulator.fleet.living()}
        assert not lost & living, env.told()


KEPT = {"nodeClassRef": {"name": "rented"}, "idleTimeout": "Never", "maxLifetime": "Never"}
RESTRICTED = {"matchLabels": {"team": "ours"}}


def claims(env: SimEnv) -> None:
    """A class with one victim's machine, and four forged requests of another namespace."""
    world = env.world
    create(world, NAMESPACE, "hostile")
    world.api.local_api.merge_patch(NAMESPACE, "", "default", {"metadata": {"labels": {"team": "ours"}}})
    a_class(world, "rented", limits={"maxNodes": 5, "maxHourlyCost": "50"}, allowedNamespaces=RESTRICTED)
    world.process("operator", operator_main())
    world.run(minutes=2)
    env.wants("victim", **KEPT)
    env.until(lambda: env.phase("victim") == "Ready", minutes=30)
    account, now = env.attempts("victim")[0]["account"], world.clock.now()
    for number, kind in enumerate(("lost", "running", "running", "unknown")):
        env.wants(f"h{number}", "hostile", **KEPT)
        uid = env.request(f"h{number}", "hostile")["metadata"]["uid"]
        status = lost_status(kind, env.recorder.cluster, uid, account, now)
        world.api.local_api.merge_patch(GPU_REQUEST, "hostile", f"h{number}", {"status": status}, "status")


def test_a_namespace_that_a_class_does_not_allow_uses_none_of_its_limits():
    """Neither by machines that it says were lost, nor by some that run, in an account of the operator or another."""
    with sim_env("claims", kubelets=QUICK, invariants=()) as env:
        claims(env)
        env.world.run(minutes=10)
        env.wants("second", **KEPT)
        env.until(lambda: env.phase("second") == "Ready", minutes=10)
        env.world.processes["operator"].crash(restart_after=10.0)
        env.world.run(minutes=5)
        env.wants("third", **KEPT)
        env.until(lambda: env.phase("third") == "Ready", minutes=10)


def reason(env: SimEnv, name: str, namespace: str) -> str:
    """Of its condition Launched."""
    conditions = env.request(name, namespace)["status"]["conditions"]
    return next(each["reason"] for each in conditions if each["type"] == "Launched")


def test_a_namespace_that_is_not_in_view_yet_is_allowed_nowhere():
    """Its labels are not known: one that the class excludes by a label would pass for one without labels."""
    with sim_env("unseen", kubelets=QUICK) as env:
        world = env.world
        without = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
        a_class(world, "rented", allowedNamespaces=without)
        world.api.faults.on("watch-lag", where=lambda hit: hit.route.plural == "namespaces", seconds=120)
        world.process("operator", operator_main())
        world.run(minutes=2)
        world.api.local_api.create(NAMESPACE, {"metadata": {"name": "theirs", "labels": {"team": "theirs"}}})
        world.api.local_api.create(NAMESPACE, {"metadata": {"name": "late"}})
        env.wants("excluded", "theirs", **KEPT)
        env.wants("served", "late", **KEPT)
        world.run(minutes=1)
        assert {reason(env, "excluded", "theirs"), reason(env, "served", "late")} == {"NamespaceNotSeen"}

        env.until(lambda: env.phase("served", "late") == "Ready", minutes=15)
        assert reason(env, "excluded", "theirs") == "NamespaceNotAllowed"
        assert "attempts" not in env.request("excluded", "theirs")["status"]
