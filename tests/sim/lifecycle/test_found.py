"""Lives that once went wrong, each with what was lost by it."""

import asyncio
from datetime import datetime, timedelta

import msgspec
import pytest

from tests.sim.an_operator import ALONE, NAMESPACE_NAME, a_class, a_pool, operator_main
from tests.sim.lifecycle.a_world import POWER, sim_env
from tgp.adapters.kube.store import Store
from tgp.api.resource import EVENT, GPU_NODE_POOL, GPU_REQUEST, NAMESPACE, NODE
from tgp.controllers.requests.machine_gateway import MachineGateway
from tgp.controllers.requests.readopt import Readopter
from tgp.core.model.token import plain_uid
from tgp.ports.cluster import WriteUnknown
from tgp.sim.checkers.objects import Quiet
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.webhook import settings_at
from tgp.sim.plain_boot import PlainBoot


def begin(env, **spec):
    a_class(env.world, "rented", **spec)
    operator = env.world.process("operator", operator_main(ALONE))
    env.world.run(minutes=2)
    return operator


def test_a_machine_that_came_up_while_the_operator_was_away_is_kept():
    """Its deadlines passed while no operator ran; it was in time, and pods run there."""
    with sim_env("away") as env:
        operator = begin(env)
        env.wants(idleTimeout="Never")
        env.works(run_for="10h")
        env.until(lambda: env.living() != [] and env.attempts()[-1].get("launchedAt"), minutes=15, step=1.0)
        operator.crash(restart_after=3 * 3600.0)
        env.world.run(hours=3)
        assert env.running_pods() != []
        env.until(lambda: env.phase() == "Ready", minutes=15)

        assert len(env.attempts()) == 1
        assert env.running_pods() != []


def test_a_request_that_waits_survives_a_restart_where_some_provider_has_no_key():
    """Nothing was ever ordered for it: a missing key must neither keep it from buying nor from being deleted."""
    with sim_env("keyless neighbour") as env:
        operator = begin(env, providers=[{"name": "simulated"}, {"name": "vultr"}])
        env.wants("never", maxHourlyPrice="0.001")
        env.wants("later", maxHourlyPrice="0.01")
        env.world.run(minutes=5)
        operator.crash()
        env.world.run(minutes=10)
        assert env.condition("Launched", "never")[1] == "NoOfferFits", env.told()

        env.drops("never")
        env.until(lambda: env.request("never") is None, minutes=15)
        for stand in env.simulator.fleet.stands.values():
            if stand.product.gpu == "RTX4090":
                env.simulator.fleet.reprice(stand.product.id, 9_000)
        env.until(lambda: env.phase("later") == "Ready", minutes=30)


def test_pods_leave_a_machine_that_became_too_dear():
    """It was in use, so it is drained as any other: no pod is cut off for a price."""
    with sim_env("dearer in use") as env:
        begin(env)
        env.wants(maxHourlyPrice="0.60", idleTimeout="Never")
        env.works(run_for="10h")
        env.until(lambda: env.phase() == "Ready" and env.running_pods() != [], minutes=15)
        (machine,) = env.living()
        machine.rate_microusd = 5_000_000
        env.until(lambda: env.phase() == "Terminating", minutes=15, step=1.0)

        assert env.condition("Terminating")[1] == "PriceExceeded"
        env.until(lambda: env.condition("Drained")[0] != "", minutes=1, step=1.0)


@pytest.mark.parametrize("who", ["an administrator", "its owner"])
def test_an_order_is_not_sent_after_a_stop(who, monkeypatch):
    """Preparing an order takes a call to the provider: a stop that is seen by then counts."""

    async def slowly(gateway, attempt, launch_input):
        prepared = await prepare(gateway, attempt, launch_input)
        if who == "its owner":
            env.drops()
        else:
            change = {"metadata": {"annotations": {"tgp.io/hold": "stop"}}}
            env.world.api.local_api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, change)
        await asyncio.sleep(2)
        return prepared

    prepare = MachineGateway.prepare
    monkeypatch.setattr(MachineGateway, "prepare", slowly)
    with sim_env(f"stopped by {who}") as env:
        begin(env)
        env.wants()
        env.world.run(minutes=10)

        assert env.simulator.calls[CloudVerb.LAUNCH] == 0
        assert who == "its owner" or env.condition("Launched")[1] == "PurchasesPaused"
        assert who == "an administrator" or env.request() is None


def test_a_machine_in_use_whose_provider_talks_on_costs_no_write():
    """A status text that changes for ever is progress only while a start goes on."""
    with sim_env("talkative") as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=15)
        env.world.run(minutes=15)
        (machine,) = env.living()
        with Quiet(env.world, env.recorder):
            for minute in range(20):
                machine.why = f"up for {minute} min"
                env.world.run(minutes=2)


@pytest.mark.parametrize("happened", [False, True])
def test_a_machine_is_adopted_again_at_once_though_the_first_write_gets_no_answer(happened, monkeypatch):
    """It has no owner meanwhile. Both writes are conditional on one version, so only one of them can happen."""

    async def unanswered(rooms, observation, step, memory):
        began.append(asyncio.get_running_loop().time())
        if len(began) > 1 or happened:
            await readopt(rooms, observation, step, memory)
        if len(began) == 1:
            await asyncio.sleep(30)
            raise WriteUnknown("no answer within 30 s")

    readopt, began = Readopter.readopt, []
    monkeypatch.setattr(Readopter, "readopt", unanswered)
    with sim_env("adopted again") as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=15)
        nothing = dict.fromkeys(env.request()["status"])
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"status": nothing}, "status")
        env.until(lambda: began != [], minutes=5, step=1.0)
        env.world.run(seconds=45)

        assert [row["outcome"] for row in env.attempts()] == ["Launched"]
        assert len(began) == (1 if happened else 2)
        assert len(env.simulator.fleet.machines) == 1
        env.until(lambda: env.phase() == "Ready", minutes=5)


@pytest.mark.parametrize(("named", "soon"), [("simulated", True), (None, False)])
def test_a_request_that_names_its_provider_is_adopted_again_without_the_other_providers(named, soon):
    """The power API of a machine you own lists late; the rented machine has no owner meanwhile."""
    with sim_env("adopted by name", "simulated", "webhook") as env:
        begin(env)
        settings = msgspec.json.decode(msgspec.json.encode(settings_at(POWER, [0])))
        a_class(env.world, "cellar", providers=[{"name": "webhook", "settings": settings}])
        env.wants(idleTimeout="Never", nodeClassRef={"name": "rented"}, **({"provider": named} if named else {}))
        env.until(lambda: env.phase() == "Ready", minutes=15)
        nothing = dict.fromkeys(env.request()["status"])
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"status": nothing}, "status")
        env.world.run(seconds=100)  # the others are waited for two minutes
        assert bool(env.attempts()) is soon

        env.until(lambda: [row["outcome"] for row in env.attempts()] == ["Launched"], minutes=5)
        assert len(env.simulator.fleet.machines) == 1


def test_a_machine_found_again_after_long_costs_from_its_beginning():
    """Its order's answer was lost with the process: the bill does not wait until a replica comes back."""
    with sim_env("adopted late") as env:
        operator = begin(env)
        env.simulator.faults.aim(CloudFault.HANG_UP_AFTER, CloudVerb.LAUNCH)
        env.wants(idleTimeout="Never")
        env.until(lambda: env.living() != [], minutes=15, step=0.25)
        operator.crash(restart_after=3600.0)
        env.world.run(hours=1)
        env.until(lambda: env.attempts()[-1].get("launchedAt"), minutes=15)
        (machine,) = env.living()
        (attempt,) = env.attempts()

        launched = datetime.fromisoformat(attempt["launchedAt"])
        assert abs(launched - machine.created_at) < timedelta(minutes=1)


def test_a_machine_is_not_ended_for_a_node_that_only_the_view_lost(monkeypatch):
    """An incomplete list must not end running pods: the Node is read by name first."""
    blind = []

    def get(store, key):
        return None if blind and store.resource is NODE else look(store, key)

    look = Store.get
    monkeypatch.setattr(Store, "get", get)
    with sim_env("blind") as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.works(run_for="10h")
        env.until(lambda: env.phase() == "Ready" and env.running_pods() != [], minutes=15)
        blind.append(True)
        env.world.run(minutes=30)
        blind.clear()
        env.until(lambda: env.phase() == "Ready", minutes=15)

        assert env.running_pods() != []
        assert len(env.attempts()) == 1


def test_an_offer_that_is_sold_out_is_told_once():
    with sim_env("told once") as env:
        begin(env)
        env.simulator.faults.aim(CloudFault.SOLD_OUT, CloudVerb.LAUNCH)
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=15)

        told = [event for event in env.world.api.local_api.objects(EVENT) if "sold_out" in event.get("note", "")]
        assert [event["reason"] for event in told] == ["LaunchFailed"]


def test_a_machine_of_a_pool_is_born_with_the_taints_of_its_pool(monkeypatch):
    """It registers with them: a pod that may not go there must not be quicker than we are."""
    boot_requests = []

    async def pack(boot, boot_request):
        boot_requests.append(boot_request)
        return await packed(boot, boot_request)

    packed = PlainBoot.pack
    monkeypatch.setattr(PlainBoot, "pack", pack)
    with sim_env("of a pool") as env:
        begin(env)
        taint = {"key": "example.com/team", "effect": "NoSchedule"}
        template = {"spec": {"taints": [taint]}}
        a_pool(env.world, "team", "rented", template=template)
        pool = env.world.api.local_api.get(GPU_NODE_POOL, "default", "team")
        owner = {"apiVersion": "tgp.io/v1", "kind": "GPUNodePool", "name": "team", "uid": pool["metadata"]["uid"]}
        request = {
            "apiVersion": "tgp.io/v1",
            "kind": "GPURequest",
            "metadata": {"name": "train", "namespace": "default", "ownerReferences": [{**owner, "controller": True}]},
            "spec": {"gpuType": "RTX4090"},
        }
        env.world.api.local_api.create(GPU_REQUEST, request)
        env.until(lambda: boot_requests != [], minutes=15)

        assert "example.com/team" in {each.key for each in boot_requests[0].taints}


def test_a_machine_is_not_ended_for_a_request_that_only_a_list_left_out(monkeypatch):
    """An API server that answers a list with an empty 200, for minutes: the request is asked for by name first."""
    blind = []

    async def replace(store, listed, version, *, rewound=False):
        shown = {} if blind and store.resource is GPU_REQUEST else listed
        await put(store, shown, version, rewound=rewound)

    put = Store.replace
    monkeypatch.setattr(Store, "replace", replace)
    with sim_env("left out") as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.works(run_for="10h")
        env.until(lambda: env.phase() == "Ready" and env.running_pods() != [], minutes=15)
        env.wants("other", idleTimeout="Never")
        env.until(lambda: env.phase("other") == "Ready", minutes=15)
        env.recorder.forced[plain_uid(env.request("other")["metadata"]["uid"])] = None
        env.drops("other")
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "other", {"metadata": {"finalizers": None}})
        blind.append(True)  # now: the collector lists the requests again before it terminates the orphan
        env.world.run(minutes=10)
        blind.clear()
        env.world.run(minutes=20)

        assert env.running_pods() != []
        assert env.phase() == "Ready"
