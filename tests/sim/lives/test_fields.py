"""Each field of a request and of its class in a whole world: what it changes, beside a neighbour without it."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from tests.sim.an_operator import a_class, create, operator_main
from tests.sim.cluster.manifests import a_template
from tests.sim.lives.an_estate import Lives, lives
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, POD
from tgp.sim.clouds.fleet import Stand
from tgp.sim.clouds.machine import Machine
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.sim.estate import Ailment

OVER = ("Finished", "Failed")
PLENTY = 20
PROGRESS = 4.6  # minutes at most that a machine here takes to run and join, by which a deadline may move


def begin(stage: Lives, **classes: Mapping[str, Any]) -> None:
    """An operator, settled, and enough of everything on sale."""
    for shop in stage.shops.values():
        for stand in shop.fleet.stands.values():
            stand.stock = stand.stock if stand.shelf.host else PLENTY
    for name, spec in classes.items():
        a_class(stage.world, name, **spec)
    stage.world.process("operator", operator_main())
    stage.world.run(minutes=1)


def machine_of(stage: Lives, name: str) -> Machine:
    """The one that is rented for it."""
    (token,) = [row["token"] for row in stage.attempts(name) if row.get("outcome") == "Launched"]
    (found,) = [machine for machine in stage.living() if machine.name == token]
    return found


def seller(stage: Lives, machine: Machine) -> str:
    return next(name for name, shop in stage.shops.items() if machine.id in shop.fleet.machines)


def stands(stage: Lives, sku: str) -> list[Stand]:
    """All places where the reference provider sells it, the cheapest first."""
    found = [stand for stand in stage.shops["simulated"].fleet.stands.values() if stand.shelf.sku == sku]
    return sorted(found, key=lambda stand: stand.hourly_microusd)


def change(stage: Lives, name: str, **spec: Any) -> None:
    stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", name, {"spec": spec})


def change_class(stage: Lives, name: str, **spec: Any) -> None:
    stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", name, {"spec": spec})


def launched(stage: Lives, *names: str):
    return lambda: all(stage.request(name).get("status", {}).get("instanceId") for name in names)


# -- what is rented ----------------------------------------------------------------------------------------------------


def test_the_machine_is_the_one_that_the_request_describes():
    """Every field that narrows the choice, each beside a request that leaves it out."""
    both = {"providers": [{"name": "simulated"}, {"name": "vultr"}], "instanceRequirements": {"spotAllowed": True}}
    with lives("described", "simulated", "vultr") as stage:
        begin(stage, both=both, elsewhere={"providers": [{"name": "vultr"}]})
        cheapest, *_, dearest = stands(stage, "rtx4090.1")
        far = dearest.shelf.place
        two_cards = {"provider": "simulated", "instanceType": "rtx4090.2"}
        wishes = {
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
        for name, wish in wishes.items():
            stage.wants(name, **{"nodeClassRef": {"name": "both"}, "idleTimeout": "Never", **wish})
        stage.wants("cheap", nodeClassRef={"name": "both"}, maxHourlyPrice="0.01")
        stage.until(launched(stage, *wishes), minutes=5)
        got = {name: machine_of(stage, name) for name in wishes}

        assert got["plain"].shelf == cheapest.shelf
        assert not got["plain"].spot
        assert (got["model"].shelf.gpu, seller(stage, got["model"])) == ("L40S", "simulated")
        assert (got["two"].shelf.gpu, got["two"].shelf.gpu_count) == ("RTX4090", 2)
        assert all(got[name].shelf == dearest.shelf for name in ("region", "regions", "place"))
        assert (got["spot"].shelf.gpu, got["spot"].spot) == ("RTX4090", True)
        assert {seller(stage, got[name]) for name in ("provider", "elsewhere")} == {"vultr"}
        assert got["type"].shelf.sku == "rtx4090.2"
        assert stage.condition("Launched", "cheap")[:2] == ("False", "NoOfferFits")


# -- what a class allows -----------------------------------------------------------------------------------------------


def test_a_suspended_class_buys_nothing_until_it_is_not():
    with lives("suspended") as stage:
        begin(stage, rented={"suspend": True})
        stage.wants()
        stage.world.run(minutes=5)
        assert stage.condition("Launched")[:2] == ("False", "Suspended")
        assert stage.shop.calls[Verb.LAUNCH] == 0

        change_class(stage, "rented", suspend=None)
        stage.until(launched(stage, "train"), minutes=5)


def test_tags_of_a_class_reach_the_provider_beside_our_own():
    with lives("tags") as stage:
        begin(stage, tagged={"tags": {"team": "ml", "cost-centre": "4711"}}, bare={})
        stage.wants("with", nodeClassRef={"name": "tagged"})
        stage.wants("without", nodeClassRef={"name": "bare"})
        stage.until(launched(stage, "with", "without"), minutes=5)
        tagged, bare = machine_of(stage, "with"), machine_of(stage, "without")

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
    with lives(f"limit {field}") as stage:
        begin(stage, rented={"limits": limit})
        stage.wants("first")
        stage.until(launched(stage, "first"), minutes=5)
        stage.wants("second")
        stage.world.run(minutes=3)
        status, reason, message = stage.condition("Launched", "second")
        assert (status, reason) == ("False", "LimitReached")
        assert field.partition("[")[0] in message
        assert len(stage.living()) == 1

        change_class(stage, "rented", limits=None)
        stage.until(launched(stage, "second"), minutes=5)


def test_each_part_of_a_start_has_the_time_its_class_gives_it():
    """A machine that is stuck somewhere is given up then; a class that says nothing leaves the usual times."""
    classes = {
        "usual": {},
        "launch": {"timeouts": {"launch": "2m"}},
        "boot": {"timeouts": {"launch": "4m", "boot": "1m"}},
        "join": {"timeouts": {"launch": "4m", "join": "1m"}},
        "initialize": {"timeouts": {"initialize": "2m"}},
    }
    with lives("timeouts") as stage:
        begin(stage, **classes)
        for name in ("usual", "boot", "join"):
            stage.estate.ailments.named[name] = [Ailment.NEVER_REGISTERS]
        stage.estate.ailments.named["initialize"] = [Ailment.NO_GPUS]
        stage.shop.mishaps.aim(Mishap.STUCK, Verb.LAUNCH)
        stage.wants("launch", nodeClassRef={"name": "launch"})
        stage.until(launched(stage, "launch"), minutes=2)
        for name in ("usual", "boot", "join", "initialize"):
            stage.wants(name, nodeClassRef={"name": name})
        stage.until(lambda: all(given_up(stage, name) for name in ("launch", "boot", "join", "initialize")), minutes=22)

        assert given_up(stage, "launch") == ("NeverStarted", 2)
        assert given_up(stage, "boot") == ("NeverJoined", pytest.approx(4 + 1 + 10, abs=PROGRESS))
        assert given_up(stage, "join") == ("NeverJoined", pytest.approx(4 + 5 + 1, abs=PROGRESS))
        assert given_up(stage, "initialize") == ("NeverInitialized", pytest.approx(2, abs=PROGRESS))
        assert stage.condition("Launched", "usual")[0] == "True"
        assert not given_up(stage, "usual"), "25 minutes and more, where nobody says anything"


def given_up(stage: Lives, name: str) -> tuple[str, float] | None:
    """Why the first attempt was, and how many minutes after its launch; None: it was not."""
    first = stage.attempts(name)[0]
    if first["outcome"] != "Failed":
        return None
    reason, _, words = first["message"].partition(": ")
    began = datetime.fromisoformat(first["launchedAt"])
    hour, minute, second = map(int, words.rstrip("Z")[-8:].split(":"))
    return reason, (began.replace(hour=hour, minute=minute, second=second) - began).total_seconds() / 60


# -- how long it stays -------------------------------------------------------------------------------------------------


def test_a_life_ends_when_its_request_says_and_can_be_prolonged():
    with lives("length") as stage:
        begin(stage, rented={})
        stage.wants("life", maxLifetime="12m", idleTimeout="Never")
        stage.wants("ttl", ttl="12m", idleTimeout="Never")
        stage.wants("idle", idleTimeout="5m")
        stage.wants("longer", maxLifetime="12m", idleTimeout="Never")
        stage.wants("plain")
        stage.world.run(minutes=8)
        change(stage, "longer", maxLifetime="2h")
        stage.until(lambda: all(stage.phase(name) in OVER for name in ("life", "ttl", "idle")), minutes=12)

        assert [stage.condition("Ended", name)[1] for name in ("life", "ttl", "idle")] == ["Expired", "Expired", "Idle"]
        assert {stage.phase("longer"), stage.phase("plain")} == {"Ready"}


def test_a_drain_waits_for_who_must_not_be_disrupted_as_long_as_the_request_says():
    with lives("grace") as stage:
        begin(stage, rented={})
        for name, grace in (("short", "4m"), ("long", "30m")):
            stage.wants(name, terminationGracePeriod=grace, labels={"which": name}, idleTimeout="Never")
        stage.until(lambda: {stage.phase("short"), stage.phase("long")} == {"Ready"}, minutes=10)
        for name in ("short", "long"):
            a_busy_pod(stage, name)
        stage.world.run(minutes=1)
        stage.drops("short")
        stage.drops("long")
        stage.until(lambda: stage.request("short") is None, minutes=8)

        assert stage.condition("Drained", "long")[:2] == ("False", "Draining")
        assert stage.world.api.backstage.get(POD, "default", "long")["status"]["phase"] == "Running"


def a_busy_pod(stage: Lives, name: str) -> None:
    """On the Node that bears its name as a label."""
    template = a_template(
        run_for="10h",
        gpus=1,
        restartPolicy="Never",
        nodeSelector={"which": name},
        tolerations=[{"key": "tgp.io/ephemeral", "operator": "Exists"}],
    )
    template["metadata"]["annotations"]["tgp.io/do-not-disrupt"] = "true"
    create(stage.world, POD, name, "default", spec=template["spec"])
    stage.world.api.backstage.merge_patch(POD, "default", name, {"metadata": template["metadata"]})


# -- what the Node looks like ------------------------------------------------------------------------------------------


def test_labels_and_taints_of_a_request_are_its_nodes():
    taint = {"key": "team", "value": "ml", "effect": "NoSchedule"}
    with lives("dress") as stage:
        begin(stage, rented={})
        stage.wants("dressed", labels={"team": "ml", "tier": "dev"}, taints=[taint], idleTimeout="Never")
        stage.wants("plain", idleTimeout="Never")
        stage.until(lambda: {stage.phase("dressed"), stage.phase("plain")} == {"Ready"}, minutes=10)
        dressed, plain = (stage.node(stage.request(name)["status"]["nodeName"]) for name in ("dressed", "plain"))

        assert {"team": "ml", "tier": "dev"}.items() <= dressed["metadata"]["labels"].items()
        assert taint in dressed["spec"]["taints"]
        assert not {"team", "tier"} & set(plain["metadata"]["labels"])
        assert taint not in plain["spec"]["taints"]

        change(stage, "dressed", labels={"tier": None})
        stage.world.run(minutes=1)
        labels = stage.node(dressed["metadata"]["name"])["metadata"]["labels"]
        assert ("team" in labels, "tier" in labels) == (True, False)


def test_an_exclusive_machine_takes_only_the_pods_made_for_it():
    """By the scheduler's own rules: whoever tolerates rented machines alone stays out."""
    name = value = "mine-" + "x" * 58  # as long as a name may be
    with lives("alone") as stage:
        begin(stage, rented={})
        stage.wants(name, exclusive=True, idleTimeout="Never")
        stage.wants("shared", idleTimeout="Never")
        stage.until(lambda: {stage.phase(name), stage.phase("shared")} == {"Ready"}, minutes=10)
        mine, shared = (stage.node(stage.request(each)["status"]["nodeName"]) for each in (name, "shared"))
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
            create(stage.world, POD, pod, "default", spec=spec)
        stage.world.run(minutes=1)
        pods = {pod: stage.world.api.backstage.get(POD, "default", pod) for pod in ("stranger", "made-for")}
        assert pods["made-for"]["spec"].get("nodeName") == mine["metadata"]["name"]
        assert "nodeName" not in pods["stranger"]["spec"]
