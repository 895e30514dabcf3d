"""Short histories of providers that say untrue things: of machines that serve, and of machines that do not yet."""

from collections.abc import Callable

from tests.sim.an_operator import a_class, operator_main
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.mutants.a_history import wipe
from tgp.api.resource import GPU_NODE_CLASS
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.fleet import Lie
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tgp.sim.node_bootstrap import NodeFault

FULL = {"maxNodes": 4, "maxHourlyCost": "3.20"}


def begin(env: SimEnv, *names: str, **spec: object) -> list[SimulatedMachine]:
    """A class, an operator, and requests whose machines are replaced when they are lost. They serve."""
    a_class(env.world, "rented", **spec)
    env.world.process("tgp-0", operator_main(shipped=True))
    env.world.run(minutes=1)
    for name in names:
        env.wants(name, restartPolicy="OnLoss", idleTimeout="Never")
        env.world.run(seconds=5)  # one is older than the other
    env.until(lambda: all(env.phase(name) == "Ready" for name in names), minutes=20)
    return env.living()


def say_for_one_look(env: SimEnv, lie: Lie) -> None:
    """In one list, and of each machine that is asked for by its id then; the next look shows the truth."""
    simulator = env.simulator
    looks = simulator.calls[CloudVerb.LIST]
    simulator.fleet.lie = lie
    env.until(lambda: simulator.calls[CloudVerb.LIST] > looks, minutes=3, step=0.5)
    env.world.run(seconds=2)
    simulator.fleet.lie = None


def denied(seed: str) -> None:
    """An account denies every machine for ten minutes, in lists and by id, while the Nodes are Ready."""
    with sim_env(seed, kubelets=QUICK) as env:
        before = begin(env, "one", "two", limits=FULL)
        nodes = env.nodes()
        env.simulator.fleet.lie = Lie(denies=True)
        env.world.run(minutes=10)

        assert env.condition("ProviderInconsistent", "one")[:2] == ("True", "MachineNotListed")
        env.simulator.fleet.lie = None
        env.world.run(minutes=5)

        assert env.living() == before, "machines that were denied were replaced"
        assert env.nodes() == nodes
        assert (env.phase("one"), env.phase("two")) == ("Ready", "Ready")
        assert env.condition("ProviderInconsistent", "one") == ("", "", "")


def denied_unseen(seed: str) -> None:
    """The same of machines whose Nodes have not come yet: nothing shows that they are there."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env, limits=FULL)
        env.node_bootstrap.node_faults.aim(NodeFault.NEVER_REGISTERS, NodeFault.NEVER_REGISTERS)
        for name in ("one", "two"):
            env.wants(name)
        env.until(lambda: [each.phase for each in env.living()] == [Phase.RUNNING] * 2, minutes=10)
        env.world.run(minutes=1)
        env.simulator.fleet.lie = Lie(denies=True)
        env.world.run(minutes=12)

        assert len(env.simulator.fleet.machines) == 2, "it was bought again where everything was denied"
        assert env.condition("Launched", "one")[1] == "ProviderInconsistent"
        assert env.condition("PresumedLost", "one")[0] == "True"


def denied_alone(seed: str) -> None:
    """A single machine, whose kubelet fell silent, is denied: it may run on, and the class has room for one."""
    with sim_env(seed, kubelets=QUICK) as env:
        env.node_bootstrap.node_faults.aim(NodeFault.FALLS_SILENT)
        begin(env, "one", limits={"maxNodes": 1})
        (machine,) = env.living()
        env.until(lambda: env.condition("Ready", "one")[0] == "False", minutes=60)
        env.simulator.fleet.lie = Lie(denies=True)
        env.until(lambda: env.condition("PresumedLost", "one")[0] == "True", minutes=10)
        env.world.processes["tgp-0"].crash(restart_after=5.0)
        env.world.run(minutes=10)

        assert env.living() == [machine], "it was replaced beyond the limit"
        assert "1 of them presumed lost" in env.condition("Launched", "one")[2]
        env.simulator.fleet.lie = None
        env.until(lambda: machine not in env.living(), minutes=6)
        env.until(lambda: env.phase("one") == "Ready", minutes=75)


def dear_once(seed: str) -> None:
    """One look shows every price a hundred times as high."""
    with sim_env(seed, kubelets=QUICK) as env:
        before = begin(env, "one", "two", "three", limits=FULL)
        say_for_one_look(env, Lie(times=100))
        env.world.run(minutes=3)

        assert env.living() == before
        prices = {env.attempts(name)[-1]["hourlyPrice"] for name in ("one", "two", "three")}
        assert all(float(price) < 5 for price in prices), "a price that was said once is on the bill"


def dear_when_wiped(seed: str) -> None:
    """A status is wiped, and the list by which its machine is adopted again has a hundred times its price."""
    with sim_env(seed, kubelets=QUICK) as env:
        begin(env)
        env.wants("one", idleTimeout="Never", maxHourlyPrice="5")
        env.until(lambda: env.phase("one") == "Ready", minutes=20)
        before = env.living()
        env.simulator.fleet.lie = Lie(times=100)
        wipe(env, "one")
        env.until(lambda: bool(env.attempts("one")), minutes=10, step=0.5)
        env.simulator.fleet.lie = None

        (row,) = env.attempts("one")
        assert "hourlyPrice" not in row, "a price that was said once is on the bill"
        assert float(row["offer"]["hourlyPrice"]) <= 5, "a price above the maximum was agreed"
        env.world.run(minutes=5)
        assert env.living() == before
        assert env.phase("one") == "Ready"


def stopped_once(seed: str) -> None:
    """One look shows every machine stopped."""
    with sim_env(seed, kubelets=QUICK) as env:
        before = begin(env, "one", "two", "three")
        say_for_one_look(env, Lie(phase=Phase.STOPPED))
        env.world.run(minutes=3)

        assert env.living() == before


def dearer_for_good(seed: str) -> None:
    """Prices rise by a fifth, truly, and then the class's limit has no room for all: the newest machine goes."""
    with sim_env(seed, kubelets=QUICK) as env:
        before = begin(env, "one", "two", "three")
        total = sum(each.rate_microusd for each in before)
        limit = {"spec": {"limits": {"maxHourlyCost": f"{total * 1.1 / 1_000_000:.6f}"}}}
        env.world.api.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", limit)
        env.world.run(seconds=5)
        for machine in before:
            machine.rate_microusd = int(machine.rate_microusd * 1.2)
        env.until(lambda: before[2] not in env.living(), minutes=10)
        env.world.run(minutes=10)

        assert before[0] in env.living(), "more machines were ended than overdrew the limit"
        assert before[1] in env.living(), "more machines were ended than overdrew the limit"


LYING: tuple[Callable[[str], None], ...] = (
    denied,
    denied_unseen,
    denied_alone,
    dear_once,
    dear_when_wiped,
    stopped_once,
    dearer_for_good,
)
