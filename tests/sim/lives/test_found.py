"""Lives that once went wrong, each with what was lost by it."""

import asyncio
from datetime import datetime, timedelta

import pytest

from tests.sim.an_operator import NAMESPACE_NAME, a_class, a_pool, operator_main
from tests.sim.lives.an_estate import lives
from tgp.adapters.kube.store import Store
from tgp.api.resource import EVENT, GPU_NODE_POOL, GPU_REQUEST, NAMESPACE, NODE
from tgp.controllers.readopting import Readopting
from tgp.controllers.till_desk import TillDesk
from tgp.core.model.token import plain_uid
from tgp.ports.cluster import WriteUnknown
from tgp.sim.checkers.objects import Quiet
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.sim.plain_boot import PlainBoot


def begin(stage, **spec):
    a_class(stage.world, "rented", **spec)
    operator = stage.world.process("operator", operator_main())
    stage.world.run(minutes=2)
    return operator


def test_a_machine_that_came_up_while_the_operator_was_away_is_kept():
    """Its deadlines passed with nobody looking; it was in time, and pods run there."""
    with lives("away") as stage:
        operator = begin(stage)
        stage.wants(idleTimeout="Never")
        stage.works(run_for="10h")
        stage.until(lambda: stage.living() != [] and stage.attempts()[-1].get("launchedAt"), minutes=15, step=1.0)
        operator.crash(restart_after=3 * 3600.0)
        stage.world.run(hours=3)
        assert stage.running_pods() != []
        stage.until(lambda: stage.phase() == "Ready", minutes=15)

        assert len(stage.attempts()) == 1
        assert stage.running_pods() != []


def test_a_request_that_waits_survives_a_restart_where_some_provider_has_no_key():
    """Nothing was ever ordered for it: a key that nobody has must neither keep it from buying nor from going."""
    with lives("keyless neighbour") as stage:
        operator = begin(stage, providers=[{"name": "simulated"}, {"name": "vultr"}])
        stage.wants("never", maxHourlyPrice="0.001")
        stage.wants("later", maxHourlyPrice="0.01")
        stage.world.run(minutes=5)
        operator.crash()
        stage.world.run(minutes=10)
        assert stage.condition("Launched", "never")[1] == "NoOfferFits", stage.told()

        stage.drops("never")
        stage.until(lambda: stage.request("never") is None, minutes=15)
        for stand in stage.shop.fleet.stands.values():
            if stand.shelf.gpu == "RTX4090":
                stage.shop.fleet.reprice(stand.shelf.id, 9_000)
        stage.until(lambda: stage.phase("later") == "Ready", minutes=30)


def test_pods_leave_a_machine_that_became_too_dear():
    """It was of use, so it is drained as any other: nobody's work is cut off for a price."""
    with lives("dearer in use") as stage:
        begin(stage)
        stage.wants(maxHourlyPrice="0.60", idleTimeout="Never")
        stage.works(run_for="10h")
        stage.until(lambda: stage.phase() == "Ready" and stage.running_pods() != [], minutes=15)
        (machine,) = stage.living()
        machine.rate_microusd = 5_000_000
        stage.until(lambda: stage.phase() == "Terminating", minutes=15, step=1.0)

        assert stage.condition("Terminating")[1] == "TooDear"
        stage.until(lambda: stage.condition("Drained")[0] != "", minutes=1, step=1.0)


@pytest.mark.parametrize("who", ["an administrator", "its owner"])
def test_an_order_is_not_sent_once_somebody_said_stop(who, monkeypatch):
    """Preparing an order takes a call to the provider: a stop that is seen by then counts."""

    async def slowly(desk, attempt, papers):
        prepared = await prepare(desk, attempt, papers)
        if who == "its owner":
            stage.drops()
        else:
            change = {"metadata": {"annotations": {"tgp.io/hold": "stop"}}}
            stage.world.api.backstage.merge_patch(NAMESPACE, "", NAMESPACE_NAME, change)
        await asyncio.sleep(2)
        return prepared

    prepare = TillDesk.prepare
    monkeypatch.setattr(TillDesk, "prepare", slowly)
    with lives(f"stopped by {who}") as stage:
        begin(stage)
        stage.wants()
        stage.world.run(minutes=10)

        assert stage.shop.calls[Verb.LAUNCH] == 0
        assert who == "its owner" or stage.condition("Launched")[1] == "Held"
        assert who == "an administrator" or stage.request() is None


def test_a_machine_in_use_whose_provider_talks_on_costs_no_write():
    """A status text that changes for ever is progress only while a start goes on."""
    with lives("talkative") as stage:
        begin(stage)
        stage.wants(idleTimeout="Never")
        stage.until(lambda: stage.phase() == "Ready", minutes=15)
        stage.world.run(minutes=15)
        (machine,) = stage.living()
        with Quiet(stage.world, stage.witness):
            for minute in range(20):
                machine.why = f"up for {minute} min"
                stage.world.run(minutes=2)


@pytest.mark.parametrize("happened", [False, True])
def test_a_machine_is_adopted_again_at_once_though_nobody_answers_the_first_write(happened, monkeypatch):
    """Nobody owns it meanwhile. Both writes are conditional on one version, so only one of them can happen."""

    async def unanswered(rooms, sight, step, memory):
        began.append(asyncio.get_running_loop().time())
        if len(began) > 1 or happened:
            await readopt(rooms, sight, step, memory)
        if len(began) == 1:
            await asyncio.sleep(30)
            raise WriteUnknown("no answer within 30 s")

    readopt, began = Readopting.readopt, []
    monkeypatch.setattr(Readopting, "readopt", unanswered)
    with lives("adopted again") as stage:
        begin(stage)
        stage.wants(idleTimeout="Never")
        stage.until(lambda: stage.phase() == "Ready", minutes=15)
        nothing = dict.fromkeys(stage.request()["status"])
        stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", "train", {"status": nothing}, "status")
        stage.until(lambda: began != [], minutes=5, step=1.0)
        stage.world.run(seconds=45)

        assert [row["outcome"] for row in stage.attempts()] == ["Launched"]
        assert len(began) == (1 if happened else 2)
        assert len(stage.shop.fleet.machines) == 1
        stage.until(lambda: stage.phase() == "Ready", minutes=5)


def test_a_machine_found_again_after_long_costs_from_its_beginning():
    """Its order's answer was lost with the process: the bill does not wait until somebody comes back."""
    with lives("adopted late") as stage:
        operator = begin(stage)
        stage.shop.mishaps.aim(Mishap.HANG_UP_AFTER, Verb.LAUNCH)
        stage.wants(idleTimeout="Never")
        stage.until(lambda: stage.living() != [], minutes=15, step=0.25)
        operator.crash(restart_after=3600.0)
        stage.world.run(hours=1)
        stage.until(lambda: stage.attempts()[-1].get("launchedAt"), minutes=15)
        (machine,) = stage.living()
        (attempt,) = stage.attempts()

        launched = datetime.fromisoformat(attempt["launchedAt"])
        assert abs(launched - machine.created_at) < timedelta(minutes=1)


def test_a_machine_is_not_ended_for_a_node_that_only_the_view_lost(monkeypatch):
    """A list that leaves something out must not end anybody's work: the Node is asked for by name first."""
    blind = []

    def get(store, key):
        return None if blind and store.resource is NODE else look(store, key)

    look = Store.get
    monkeypatch.setattr(Store, "get", get)
    with lives("blind") as stage:
        begin(stage)
        stage.wants(idleTimeout="Never")
        stage.works(run_for="10h")
        stage.until(lambda: stage.phase() == "Ready" and stage.running_pods() != [], minutes=15)
        blind.append(True)
        stage.world.run(minutes=30)
        blind.clear()
        stage.until(lambda: stage.phase() == "Ready", minutes=15)

        assert stage.running_pods() != []
        assert len(stage.attempts()) == 1


def test_an_offer_that_is_sold_out_is_told_once():
    with lives("told once") as stage:
        begin(stage)
        stage.shop.mishaps.aim(Mishap.SOLD_OUT, Verb.LAUNCH)
        stage.wants(idleTimeout="Never")
        stage.until(lambda: stage.phase() == "Ready", minutes=15)

        told = [event for event in stage.world.api.backstage.objects(EVENT) if "sold_out" in event.get("note", "")]
        assert [event["reason"] for event in told] == ["LaunchFailed"]


def test_a_machine_of_a_pool_is_born_with_the_taints_of_its_pool(monkeypatch):
    """It registers with them: a pod that may not go there must not be quicker than we are."""
    births = []

    async def pack(boot, birth):
        births.append(birth)
        return await packed(boot, birth)

    packed = PlainBoot.pack
    monkeypatch.setattr(PlainBoot, "pack", pack)
    with lives("of a pool") as stage:
        begin(stage)
        taint = {"key": "example.com/team", "effect": "NoSchedule"}
        template = {"spec": {"taints": [taint]}}
        a_pool(stage.world, "team", "rented", template=template)
        pool = stage.world.api.backstage.get(GPU_NODE_POOL, "default", "team")
        owner = {"apiVersion": "tgp.io/v1", "kind": "GPUNodePool", "name": "team", "uid": pool["metadata"]["uid"]}
        request = {
            "apiVersion": "tgp.io/v1",
            "kind": "GPURequest",
            "metadata": {"name": "train", "namespace": "default", "ownerReferences": [{**owner, "controller": True}]},
            "spec": {"gpuType": "RTX4090"},
        }
        stage.world.api.backstage.create(GPU_REQUEST, request)
        stage.until(lambda: births != [], minutes=15)

        assert "example.com/team" in {each.key for each in births[0].taints}


def test_a_machine_is_not_ended_for_a_request_that_only_a_list_left_out(monkeypatch):
    """An API server that answers a list with an empty 200, for minutes: the request is asked for by name first."""
    blind = []

    async def replace(store, listed, version, *, rewound=False):
        shown = {} if blind and store.resource is GPU_REQUEST else listed
        await put(store, shown, version, rewound=rewound)

    put = Store.replace
    monkeypatch.setattr(Store, "replace", replace)
    with lives("left out") as stage:
        begin(stage)
        stage.wants(idleTimeout="Never")
        stage.works(run_for="10h")
        stage.until(lambda: stage.phase() == "Ready" and stage.running_pods() != [], minutes=15)
        stage.wants("other", idleTimeout="Never")
        stage.until(lambda: stage.phase("other") == "Ready", minutes=15)
        stage.witness.forced[plain_uid(stage.request("other")["metadata"]["uid"])] = None
        stage.drops("other")
        stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", "other", {"metadata": {"finalizers": None}})
        blind.append(True)  # now: the collector lists the requests anew before it gives the orphan back
        stage.world.run(minutes=10)
        blind.clear()
        stage.world.run(minutes=20)

        assert stage.running_pods() != []
        assert stage.phase() == "Ready"
