"""Requests that a pool created: held to its limits, idle as long as it likes, and gone when it deletes them."""

from collections import Counter
from typing import Any

from tests.sim.an_operator import ALONE, a_class, a_pool, operator_main
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.with_pools import asks, requests
from tgp.api.resource import EVENT, GPU_NODE_POOL, GPU_REQUEST
from tgp.sim.router import Exchange, Tap
from tgp.sim.world import KUBERNETES

POOL = "team"
BEFORE_WITHDRAWN = 25  # seconds: a pool deletes a request that cannot buy for longer
ORDERS = 10
# At most, for all of them, with what the operator writes meanwhile about orders that were sent before: that is what
# varies, by 3 with four seeds. Class and hold are read once a second for all orders, the table of accounts seldom.
CALLS = {
    "GET gpurequests": ORDERS,
    "LIST gpurequests": 1,
    "PATCH status": 28,
    "GET configmaps": 12,
    "POST configmaps": 1,
    "PATCH gpunodeclasses": 4,
    "PATCH namespaces": 1,
    "GET gpunodeclasses": 2,
    "GET namespaces": 2,
}
CALLS_OF_A_USERS_ORDER = CALLS | {"PATCH gpurequests": ORDERS, "POST events": ORDERS}
# The pool writes the request, and says so in an Event; the finalizer comes with the request.
CALLS_OF_A_POOLS_ORDER = CALLS | {"POST gpurequests": ORDERS, "POST events": 2 * ORDERS, "PATCH gpunodepools": 1}


class CallsUntilOrdered(Tap):
    """The operator's calls to the API server until the last of so many orders, without its watches and its Lease."""

    def __init__(self, env: SimEnv, orders: int) -> None:
        self.calls: Counter[str] = Counter()
        self.left = orders
        env.world.network.taps.append(self)

    def beyond(self, most: dict[str, int]) -> dict[str, int]:
        return {kind: calls for kind, calls in self.calls.items() if calls > most.get(kind, 0)}

    def written(self, exchange: Exchange) -> None:
        call = exchange.call
        if exchange.endpoint.name != KUBERNETES:
            self.left -= call.changes_things
        elif self.left > 0 and "/leases" not in call.path and not dict(call.query).get("watch"):
            *_, parent, last = call.path.removesuffix("/status").split("/")
            if call.path.endswith("/status"):
                self.calls[f"{call.method} status"] += 1
            elif parent == "v1":
                self.calls[f"LIST {last}"] += 1
            else:
                self.calls[f"{call.method} {last if call.method == 'POST' else parent}"] += 1


def begin(env: SimEnv, **limits: Any) -> None:
    a_class(env.world, "rented")
    a_pool(env.world, POOL, "rented", limits={"resources": limits}, disruption={"consolidateAfter": "Never"})
    env.world.process("operator", operator_main(ALONE))
    env.world.run(minutes=2)


def orphan(env: SimEnv, name: str = "train") -> None:
    """As `kubectl delete gpunodepool --cascade=orphan` leaves it."""
    change = {"metadata": {"ownerReferences": None}}
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, change)
    env.world.api.local_api.delete(GPU_NODE_POOL, "default", POOL)


def test_a_machine_of_a_pool_idles_until_its_request_is_deleted_and_its_cost_is_recorded():
    with sim_env("pool-idle") as env:
        begin(env)
        env.pool_wants(POOL)
        env.until(lambda: env.phase() == "Ready", minutes=60)
        env.world.run(minutes=90)
        assert env.phase() == "Ready"
        assert "NoEnd" not in {event["reason"] for event in env.world.api.local_api.objects(EVENT)}

        env.drops()
        env.until(lambda: env.phase() == "gone", minutes=60)
        assert env.living() == []
        assert f'"pool":"default/{POOL}"' in env.spend_records().replace(" ", "")


def test_an_orphan_falls_back_to_its_own_idle_timeout():
    with sim_env("pool-orphan") as env:
        begin(env)
        env.pool_wants(POOL, idleTimeout="20m")
        env.until(lambda: env.phase() == "Ready", minutes=60)
        env.world.run(minutes=60)
        assert env.phase() == "Ready"
        orphan(env)
        env.until(lambda: env.phase() == "Finished", minutes=60)
        assert env.condition("Ended")[1] == "Idle"
        assert env.living() == []


def test_the_limits_of_a_pool_hold_however_many_requests_it_writes():
    with sim_env("pool-limits") as env:
        begin(env, nodes=1)
        for number in range(3):
            env.pool_wants(POOL, f"train-{number}")
        env.world.run(seconds=BEFORE_WITHDRAWN)
        waits = [name for name in (f"train-{number}" for number in range(3)) if env.phase(name) == "Pending"]

        assert len(env.living()) == 1
        assert len(waits) == 2
        why = f"Pool default/{POOL}: limits.resources[nodes] is 1, and 1 are in use."
        assert env.condition("Launched", waits[0]) == ("False", "LimitReached", why)
        more = {"spec": {"limits": {"resources": {"nodes": 2}}}}
        env.world.api.local_api.merge_patch(GPU_NODE_POOL, "default", POOL, more)
        env.until(lambda: len(env.living()) == 2, minutes=5)


def test_nothing_is_bought_for_a_pool_that_is_gone():
    with sim_env("pool-gone") as env:
        begin(env, memory="1Gi")
        env.pool_wants(POOL)
        env.world.run(seconds=BEFORE_WITHDRAWN)
        assert env.condition("Launched")[1] == "LimitReached"
        env.world.api.local_api.delete(GPU_NODE_POOL, "default", POOL)
        env.world.run(minutes=2)
        assert env.phase() == "gone", "the garbage collector deleted it, and nothing held it"
        assert env.living() == []


def test_an_order_takes_few_calls_to_the_api_server():
    with sim_env("pool-calls") as env:
        for stand in env.simulator.fleet.stands.values():
            stand.stock = ORDERS
        begin(env)
        counted = CallsUntilOrdered(env, ORDERS)
        for number in range(ORDERS):
            env.pool_wants(POOL, f"train-{number}")
        env.until(lambda: len(env.living()) == ORDERS, minutes=5)

        assert counted.left == 0
        assert counted.beyond(CALLS_OF_A_USERS_ORDER) == {}
        assert counted.calls["GET gpurequests"] == counted.calls["PATCH gpurequests"] == ORDERS


def test_a_pool_writes_its_request_with_the_finalizer_and_the_mark_in_one_call():
    alone = [{"key": "tgp.io/gpu-count", "operator": "In", "values": ["1"]}]
    with sim_env("pool-one-create") as env:
        for stand in env.simulator.fleet.stands.values():
            stand.stock = ORDERS
        a_class(env.world, "rented")
        a_pool(env.world, POOL, "rented", template={"spec": {"requirements": alone}})
        env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=2)
        counted = CallsUntilOrdered(env, ORDERS)
        for number in range(ORDERS):
            asks(env, f"train-{number}")
        env.until(lambda: len(env.living()) == ORDERS, minutes=5)

        assert counted.left == 0
        assert counted.beyond(CALLS_OF_A_POOLS_ORDER) == {}
        assert counted.calls["GET gpurequests"] == ORDERS


def test_a_new_process_lists_every_provider_before_it_buys_for_a_request_that_another_created():
    """It cannot know that nothing was ordered: the status may have been erased. Then it buys, and once."""
    with sim_env("pool-created-and-died") as env:
        a_class(env.world, "rented")
        a_pool(env.world, POOL, "rented")
        env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=2)
        asks(env)
        while not requests(env):
            env.world.run(seconds=0.002)
        env.world.processes["operator"].crash(restart_after=5)
        (created,) = requests(env)
        assert "status" not in created, "it died before it reserved anything"
        env.world.run(seconds=20)
        name = created["metadata"]["name"]
        assert env.condition("Launched", name)[1] == "LaunchOutcomePending"
        assert env.living() == []

        env.until(lambda: env.phase(name) == "Ready", minutes=30)
        assert len(env.simulator.fleet.machines) == 1
