"""Histories about pools: what is paid for already, what was told not to be bought, and what is taken for empty."""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from tests.sim.an_operator import a_class
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.with_pools import asks, begin, events_of, requests, runs
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_REQUEST, NODE, POD
from tgp.sim.checkers.recorded import RecordedRequest
from tgp.sim.checkers.recorder import Checker
from tgp.sim.node_bootstrap import KubeletTimes, NodeFault

EPHEMERAL = [{"key": "tgp.io/ephemeral", "operator": "Exists"}]  # all that a pod needs to tolerate, and no more
SLOW_TO_BOOT = KubeletTimes(registers=(400.0, 400.0), ready=(2.0, 5.0), gpus=(2.0, 8.0))
SLOW_GPUS = KubeletTimes(registers=(5.0, 15.0), ready=(2.0, 5.0), gpus=(240.0, 240.0))
SOON_GONE = {"launch": "5m", "boot": "1m", "join": "1m", "initialize": "2m"}


class AtRequests(Checker):
    """Does something at the moment a pool's first request is created."""

    def __init__(self, env: SimEnv, deed: Callable[[RecordedRequest], None]) -> None:
        super().__init__(env.recorder)
        self._deed = deed
        self._done = False

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        if before is None and after is not None and not self._done:
            self._done = True
            self._deed(after)


def rented(env: SimEnv) -> int:
    """Machines that were ever ordered."""
    return len(env.simulator.fleet.machines)


# -- room that is paid for ---------------------------------------------------------------------------------------------


def pod_while_a_machine_comes(seed: str) -> None:
    """A pod asks while a machine that it fits on has just been ordered."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants("mine", idleTimeout="Never")
        env.until(lambda: rented(env) == 1, minutes=2, step=1.0)
        asks(env)
        env.until(runs(env), minutes=10)

        assert rented(env) == 1, "a machine was bought beside one on its way that has room"


def ready_before_its_gpus(seed: str) -> None:
    """The same, once the machine's Node is Ready, and its GPUs cannot be used yet."""
    with sim_env(seed, kubelets=SLOW_GPUS) as env:
        begin(env)
        env.wants("mine", idleTimeout="Never")
        env.until(lambda: env.condition("Registered", "mine")[0] == "True", minutes=5, step=1.0)
        asks(env)
        env.until(runs(env), minutes=10)

        assert rented(env) == 1, "a machine was bought beside a Node whose GPUs were still to come"


def tainted_by_others(seed: str) -> None:
    """A component of the cluster taints every new Node, so that the pod it was bought for does not fit there."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env, disruption={"consolidateAfter": "2h"})

        class Tainter(Checker):
            def registered(self, before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
                if before is None and after is not None and after["spec"].get("providerID", "").startswith("tgp://"):
                    taints = [
                        *after["spec"].get("taints", ()),
                        {"key": "example.com/quarantine", "effect": "NoSchedule"},
                    ]
                    change = {"spec": {"taints": taints}}
                    name = after["metadata"]["name"]
                    env.world.loop.call_later(0.5, env.world.api.local_api.merge_patch, NODE, "", name, change)

        env.recorder.call(Tainter)
        asks(env, tolerations=EPHEMERAL)
        env.until(lambda: env.nodes() != [], minutes=5)
        env.world.run(minutes=45)  # longer than the first pauses after a machine that serves none

        assert not runs(env)(), "the taint is of no effect"
        assert rented(env) == 1, "a second machine was bought for a pod that the first one does not serve"


def no_request_shown_to_a_pool(seed: str) -> None:
    """For a minute the API server lists no request at all, to a leader that has never heard of one; a machine boots."""
    put, blind = Store.replace, [False]

    async def replace_all(store: Store[Any], listed: Any, version: int, *, rewound: bool = False) -> None:
        shown = {} if blind[0] and store.resource is GPU_REQUEST else listed
        await put(store, shown, version, rewound=rewound)

    with patch.object(Store, "replace", replace_all), sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.node_bootstrap.node_faults.aim(NodeFault.REGISTERS_LATE)
        asks(env)
        env.until(lambda: rented(env) == 1, minutes=2, step=1.0)
        blind[0] = True
        env.world.processes["operator-0"].crash(restart_after=1.0)
        env.world.run(seconds=70)
        assert len(requests(env)) == 1, "a second request was created for a pod: the first was not in a list"
        blind[0] = False
        env.world.processes["operator-0"].crash(restart_after=1.0)
        env.world.run(minutes=4)

        assert rented(env) == len(requests(env)) == 1, "a second machine was bought for a pod"


# -- what did not work -------------------------------------------------------------------------------------------------


def restart_after_an_unusable_machine(seed: str) -> None:
    """A machine was paid and never registered; the operator that bought it is replaced before the pause is over."""
    with sim_env(seed, kubelets=QUICK) as env:
        env.node_bootstrap.node_faults.chances[NodeFault.NEVER_REGISTERS] = 1.0
        a_class(env.world, "rented", timeouts=SOON_GONE)
        begin(env, of_class=False)
        asks(env)
        env.until(lambda: rented(env) == 1 and env.living() == [], minutes=20)
        env.world.run(seconds=20)
        env.world.processes["operator-0"].crash(restart_after=1.0)
        env.world.run(minutes=3)

        assert rented(env) == 1, "the next machine was bought at once, as if the first had not been"


def dearer_after_the_plan(seed: str) -> None:
    """Between the plan and the order the operator is replaced, and every price goes above what the pool pays."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env, maxHourlyPrice="1.00")

        def raise_prices(_request: RecordedRequest) -> None:
            fleet = env.simulator.fleet
            for stand in fleet.selling():
                fleet.reprice(stand.product.id, max(stand.hourly_microusd, 1_000_000) * 11 // 10)
            env.world.processes["operator-0"].crash(restart_after=1.0)

        env.recorder.add(AtRequests(env, raise_prices))
        asks(env)
        env.until(lambda: requests(env) != [], minutes=1, step=1.0)
        env.world.run(minutes=5)  # about three of them asks the new leader the provider first

        assert rented(env) == 0, "a machine was bought above the pool's ceiling"
        assert requests(env) == [], "a request that cannot buy was not deleted"


# -- what is taken for empty -------------------------------------------------------------------------------------------


def long_boot(seed: str) -> None:
    """A machine takes longer to boot than its pool keeps empty machines."""
    with sim_env(seed, kubelets=SLOW_TO_BOOT) as env:
        a_class(env.world, "rented", timeouts={"boot": "10m", "join": "20m"})
        begin(env, of_class=False, disruption={"consolidateAfter": "1m"})
        asks(env)
        env.until(lambda: rented(env) == 1, minutes=2)
        env.until(lambda: runs(env)() or rented(env) > 1, minutes=15)

        assert rented(env) == 1, "a machine that boots was taken for an empty one"


def pod_unheard(seed: str) -> None:
    """A pod is bound to a machine that has just become empty, and the watch of pods brings no news of it; lists do."""
    put = Store.put

    def put_unless_second(store: Store[Any], record: Any) -> None:
        if store.resource is not POD or record.key.name != "second":
            put(store, record)

    with patch.object(Store, "put", put_unless_second), sim_env(seed, kubelets=QUICK) as env:
        begin(env, disruption={"consolidateAfter": "2m"})
        asks(env, "first", run_for="3m")
        env.until(runs(env, "first"), minutes=10)
        asks(env, "second", run_for="2h")
        env.until(runs(env, "second"), minutes=5)
        env.world.run(minutes=8)

        assert len(env.living()) == 1, "a machine in use was terminated: its pod had not been heard of"
        assert runs(env, "second")(), "a pod was evicted from a machine that was taken for empty"


# -- what is said ------------------------------------------------------------------------------------------------------


def too_large_for_any(seed: str) -> None:
    """A pod that no machine on sale serves."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        asks(env, gpus=64)
        env.world.run(minutes=1)

        assert [reason for reason, _ in events_of(env)] == ["NotTriggerScaleUp"], "a pod was left without a word"


POOLS = (
    pod_while_a_machine_comes,
    ready_before_its_gpus,
    tainted_by_others,
    no_request_shown_to_a_pool,
    restart_after_an_unusable_machine,
    dearer_after_the_plan,
    long_boot,
    pod_unheard,
    too_large_for_any,
)
