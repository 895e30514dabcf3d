"""Each field of a request and of its class in a whole world: what it changes, beside a neighbour without it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from tests.sim.an_operator import ALONE, a_class, create, operator_main
from tests.sim.cluster.manifests import a_template
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, POD
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Stand
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.node_bootstrap import NodeFault

OVER = ("Finished", "Failed")
PLENTY = 20
PROGRESS = 4.6  # minutes at most that a machine here takes to run and join, by which a deadline may move


def begin(env: SimEnv, **classes: Mapping[str, Any]) -> None:
    """An operator, settled, and enough of everything on sale."""
    for simulator in env.simulators.values():
        for stand in simulator.fleet.stands.values():
            stand.stock = stand.stock if stand.product.host else PLENTY
    for name, spec in classes.items():
        a_class(env.world, name, **spec)
    env.world.process("operator", operator_main(ALONE))
    env.world.run(minutes=1)


def machine_of(env: SimEnv, name: str) -> SimulatedMachine:
    """The one that is rented for it."""
    (token,) = [row["token"] for row in env.attempts(name) if row.get("outcome") == "Launched"]
    (found,) = [machine for machine in env.living() if machine.name == token]
    return found


def source_status(env: SimEnv, machine: SimulatedMachine) -> str:
    return next(name for name, simulator in env.simulators.items() if machine.id in simulator.fleet.machines)


def stands(env: SimEnv, sku: str) -> list[Stand]:
    """All places where the reference provider sells it, the cheapest first."""
    found = [stand for stand in env.simulators["simulated"].fleet.stands.values() if stand.product.sku == sku]
    return sorted(found, key=lambda stand: stand.hourly_microusd)


def change(env: SimEnv, name: str, **spec: Any) -> None:
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"spec": spec})


def change_class(env: SimEnv, name: str, **spec: Any) -> None:
    env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", name, {"spec": spec})


def launched(env: SimEnv, *names: str):
    return lambda: all(env.request(name).get("status", {}).get("instanceId") for name in names)


# -- what is rented ----------------------------------------------------------------------------------------------------


def test_the_machine_is_the_one_that_the_request_describes():
    """Every field that narrows the choice, each beside a request that leaves it out."""
    both = {"providers": [{"name": "simulated"}, {"name": "vultr"}], "instanceRequirements": {"spotAllowed": True}}
    with sim_env("described", "simulated", "vultr") as env:
        begin(env, both=both, elsewhere={"providers": [{"name": "vultr"}]})
        cheapest, *_, dearest = stands(env, "rtx4090.1")
        far = dearest.product.place
        two_cards = {"provider": "simulated", "instanceType": "rtx4090.2"}
        queries = {
            "plain": {},
            "model": {"gpuType": "L40S"},
            "two": {"gpuCount": 2},
            "region": {"region": far},
            "regions": {"regions": [far]},
            "spot": {"spot": True},
            "provider": {"gpuType": "L40S", "provider": "vultr"},
            "elsewhere": {"gpuType": "L40S", "nodeClassRef": {"name": "elsewhere"}},
            "type": {"offer": two_cards},
            "place": {"offer": {"provider": "simulated", "instanceType": "rtx4090.1", "region": far}},
        }
        for name, query in queries.items():
            env.wants(name, **{"nodeClassRef": {"name": "both"}, "idleTimeout": "Never", **query})
        env.wants("cheap", nodeClassRef={"name": "both"}, maxHourlyPrice="0.01")
        env.until(launched(env, *queries), minutes=5)
        got = {name: machine_of(env, name) for name in queries}

        assert got["plain"].product == cheapest.product
        assert not got["plain"].spot
        assert (got["model"].product.gpu, source_status(env, got["model"])) == ("L40S", "simulated")
        assert (got["two"].product.gpu, got["two"].product.gpu_count) == ("RTX4090", 2)
        assert all(got[name].product == dearest.product for name in ("region", "regions", "place"))
        assert (got["spot"].product.gpu, got["spot"].spot) == ("RTX4090", True)
        assert {source_status(env, got[name]) for name in ("provider", "elsewhere")} == {"vultr"}
        assert got["type"].product.sku == "rtx4090.2"
        assert env.condition("Launched", "cheap")[:2] == ("False", "NoOfferFits")


# -- what a class allows -----------------------------------------------------------------------------------------------


def test_a_suspended_class_buys_nothing_until_it_is_not():
    with sim_env("suspended") as env:
        begin(env, rented={"suspend": True})
        env.wants()
        env.world.run(minutes=5)
        assert env.condition("Launched")[:2] == ("False", "Suspended")
        assert env.simulator.calls[CloudVerb.LAUNCH] == 0

        change_class(env, "rented", suspend=None)
        env.until(launched(env, "train"), minutes=5)


def test_tags_of_a_class_reach_the_provider_beside_our_own():
    with sim_env("tags") as env:
        begin(env, tagged={"tags": {"team": "ml", "cost-centre": "4711"}}, bare={})
        env.wants("with", nodeClassRef={"name": "tagged"})
        env.wants("without", nodeClassRef={"name": "bare"})
        env.until(launched(env, "with", "without"), minutes=5)
        tagged, bare = machine_of(env, "with"), machine_of(env, "without")

        assert tagged.tags == {"team": "ml", "cost-centre": "4711", **dict.fromkeys(bare.tags, tagged.name)}
        assert set(bare.tags.values()) == {bare.name}, "our own mark, and nothing else"


@pytest.mark.parametrize(
    ("field", "limit"),
    [
        ("maxNodes", {"maxNodes": 1}),
        ("maxHourlyCost", {"maxHourlyCost": "0.60"}),
        ("resources[nvidia.com/gpu]", {"resources": {"nvidia.com/gpu": 1}}),
    ],
)
def test_a_limit_holds_the_second_machine_until_it_is_lifted(field, limit):
    with sim_env(f"limit {field}") as env:
        begin(env, rented={"limits": limit})
        env.wants("first")
        env.until(launched(env, "first"), minutes=5)
        env.wants("second")
        env.world.run(minutes=3)
        status, reason, message = env.condition("Launched", "second")
        assert (status, reason) == ("False", "LimitReached")
        assert field.partition("[")[0] in message
        assert len(env.living()) == 1

        change_class(env, "rented", limits=None)
        env.until(launched(env, "second"), minutes=5)


def test_each_part_of_a_start_has_the_time_its_class_gives_it():
    """A machine that is stuck somewhere is given up then; a class that says nothing leaves the usual times."""
    classes = {
        "usual": {},
        "launch": {"timeouts": {"launch": "2m"}},
        "boot": {"timeouts": {"launch": "4m", "boot": "1m"}},
        "join": {"timeouts": {"launch": "4m", "join": "1m"}},
        "initialize": {"timeouts": {"initialize": "2m"}},
    }
    with sim_env("timeouts") as env:
        begin(env, **classes)
        for name in ("usual", "boot", "join"):
            env.node_bootstrap.node_faults.named[name] = [NodeFault.NEVER_REGISTERS]
        env.node_bootstrap.node_faults.named["initialize"] = [NodeFault.NO_GPUS]
        env.simulator.faults.aim(CloudFault.STUCK, CloudVerb.LAUNCH)
        env.wants("launch", nodeClassRef={"name": "launch"})
        env.until(launched(env, "launch"), minutes=2)
        for name in ("usual", "boot", "join", "initialize"):
            env.wants(name, nodeClassRef={"name": name})
        env.until(lambda: all(given_up(env, name) for name in ("launch", "boot", "join", "initialize")), minutes=22)

        assert given_up(env, "launch") == ("NeverStarted", 2)
        assert given_up(env, "boot") == ("NeverJoined", pytest.approx(4 + 1 + 10, abs=PROGRESS))
        assert given_up(env, "join") == ("NeverJoined", pytest.approx(4 + 5 + 1, abs=PROGRESS))
        assert given_up(env, "initialize") == ("NeverInitialized", pytest.approx(2, abs=PROGRESS))
        assert env.condition("Launched", "usual")[0] == "True"
        assert not given_up(env, "usual"), "25 minutes and more, by default"


def given_up(env: SimEnv, name: str) -> tuple[str, float] | None:
    """Why the first attempt was, and how many minutes after its launch; None: it was not."""
    first = env.attempts(name)[0]
    if first["outcome"] != "Failed":
        return None
    reason, _, words = first["message"].partition(": ")
    began = datetime.fromisoformat(first["launchedAt"])
    hour, minute, second = map(int, words.rstrip("Z.")[-8:].split(":"))
    return reason, (began.replace(hour=hour, minute=minute, second=second) - began).total_seconds() / 60


# -- how long it stays -------------------------------------------------------------------------------------------------


def test_a_life_ends_when_its_request_says_and_can_be_prolonged():
    with sim_env("length") as env:
        begin(env, rented={})
        env.wants("life", maxLifetime="12m", idleTimeout="Never")
        env.wants("ttl", ttl="12m", idleTimeout="Never")
        env.wants("idle", idleTimeout="5m")
        env.wants("longer", maxLifetime="12m", idleTimeout="Never")
        env.wants("plain")
        env.world.run(minutes=8)
        change(env, "longer", maxLifetime="2h")
        env.until(lambda: all(env.phase(name) in OVER for name in ("life", "ttl", "idle")), minutes=12)

        assert [env.condition("Ended", name)[1] for name in ("life", "ttl", "idle")] == ["Expired", "Expired", "Idle"]
        assert {env.phase("longer"), env.phase("plain")} == {"Ready"}


def test_a_drain_waits_for_who_must_not_be_disrupted_as_long_as_the_request_says():
    with sim_env("grace") as env:
        begin(env, rented={})
        for name, grace in (("short", "4m"), ("long", "30m")):
            env.wants(name, terminationGracePeriod=grace, labels={"which": name}, idleTimeout="Never")
        env.until(lambda: {env.phase("short"), env.phase("long")} == {"Ready"}, minutes=10)
        for name in ("short", "long"):
            a_busy_pod(env, name)
        env.world.run(minutes=1)
        env.drops("short")
        env.drops("long")
        env.until(lambda: env.request("short") is None, minutes=8)

        assert env.condition("Drained", "long")[:2] == ("False", "Draining")
        assert env.world.api.local_api.get(POD, "default", "long")["status"]["phase"] == "Running"


def a_busy_pod(env: SimEnv, name: str) -> None:
    """On the Node that bears its name as a label."""
    template = a_template(
        run_for="10h",
        gpus=1,
        restartPolicy="Never",
        nodeSelector={"which": name},
        tolerations=[{"key": "tgp.io/ephemeral", "operator": "Exists"}],
    )
    template["metadata"]["annotations"]["tgp.io/do-not-disrupt"] = "true"
    create(env.world, POD, name, "default", spec=template["spec"])
    env.world.api.local_api.merge_patch(POD, "default", name, {"metadata": template["metadata"]})


# -- what the Node looks like ------------------------------------------------------------------------------------------


def test_labels_and_taints_of_a_request_are_its_nodes():
    taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
    with sim_env("dress") as env:
        begin(env, rented={})
        env.wants("dressed", labels={"team": "ml", "tier": "dev"}, taints=[taint], idleTimeout="Never")
        env.wants("plain", idleTimeout="Never")
        env.until(lambda: {env.phase("dressed"), env.phase("plain")} == {"Ready"}, minutes=10)
        dressed, plain = (env.node(env.request(name)["status"]["nodeName"]) for name in ("dressed", "plain"))

        assert {"team": "ml", "tier": "dev"}.items() <= dressed["metadata"]["labels"].items()
        assert taint in dressed["spec"]["taints"]
        assert not {"team", "tier"} & set(plain["metadata"]["labels"])
        assert taint not in plain["spec"]["taints"]

        change(env, "dressed", labels={"tier": None})
        env.world.run(minutes=1)
        labels = env.node(dressed["metadata"]["name"])["metadata"]["labels"]
        assert ("team" in labels, "tier" in labels) == (True, False)


def test_an_exclusive_machine_takes_only_the_pods_made_for_it():
    """By the scheduler's own rules: a pod that tolerates only the ephemeral taint stays out."""
    name = value = "mine-" + "x" * 58  # as long as a name may be
    with sim_env("alone") as env:
        begin(env, rented={})
        env.wants(name, exclusive=True, idleTimeout="Never")
        env.wants("shared", idleTimeout="Never")
        env.until(lambda: {env.phase(name), env.phase("shared")} == {"Ready"}, minutes=10)
        mine, shared = (env.node(env.request(each)["status"]["nodeName"]) for each in (name, "shared"))
        taint = {"key": "tgp.io/request", "value": value, "effect": "NoSchedule"}

        assert mine["metadata"]["labels"]["tgp.io/request"] == value
        assert taint in mine["spec"]["taints"]
        assert "tgp.io/request" not in {each["key"] for each in shared["spec"]["taints"]}

        ephemeral = {"key": "tgp.io/ephemeral", "operator": "Exists"}
        made_for = {"key": "tgp.io/request", "operator": "Equal", "value": value, "effect": "NoSchedule"}
        for pod, tolerations in (("stranger", [ephemeral]), ("made-for", [ephemeral, made_for])):
            spec = {
                "nodeSelector": {"tgp.io/request": value},
                "tolerations": tolerations,
                "containers": [{"name": "c", "image": "c"}],
            }
            create(env.world, POD, pod, "default", spec=spec)
        env.world.run(minutes=1)
        pods = {pod: env.world.api.local_api.get(POD, "default", pod) for pod in ("stranger", "made-for")}
        assert pods["made-for"]["spec"].get("nodeName") == mine["metadata"]["name"]
        assert "nodeName" not in pods["stranger"]["spec"]
