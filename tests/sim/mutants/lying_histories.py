"""Short histories of providers that say untrue things: of machines that serve, and of machines that do not yet."""

from collections.abc import Callable

from tests.sim.an_operator import a_class, operator_main
from tests.sim.lives.an_estate import Lives, lives
from tests.sim.lives.reference import QUICK
from tgp.api.resource import GPU_NODE_CLASS
from tgp.sim.clouds.fleet import Lie
from tgp.sim.clouds.machine import Machine, Phase
from tgp.sim.clouds.mishaps import Verb
from tgp.sim.estate import Ailment

FULL = {"maxNodes": 4, "maxHourlyCost": "3.20"}


def begin(stage: Lives, *names: str, **spec: object) -> list[Machine]:
    """A class, an operator, and requests whose machines are replaced when they are lost. They serve."""
    a_class(stage.world, "rented", **spec)
    stage.world.process("tgp-0", operator_main())
    stage.world.run(minutes=1)
    for name in names:
        stage.wants(name, restartPolicy="OnLoss", idleTimeout="Never")
        stage.world.run(seconds=5)  # one is older than the other
    stage.until(lambda: all(stage.phase(name) == "Ready" for name in names), minutes=20)
    return stage.living()


def say_for_one_look(stage: Lives, lie: Lie) -> None:
    """In one list, and of each machine that is asked for by its id then; the next look shows the truth."""
    shop = stage.shop
    looks = shop.calls[Verb.LIST]
    shop.fleet.lie = lie
    stage.until(lambda: shop.calls[Verb.LIST] > looks, minutes=3, step=0.5)
    stage.world.run(seconds=2)
    shop.fleet.lie = None


def denied(seed: str) -> None:
    """An account denies every machine for ten minutes, in lists and by id, while the Nodes are Ready."""
    with lives(seed, kubelets=QUICK) as stage:
        before = begin(stage, "one", "two", limits=FULL)
        nodes = stage.nodes()
        stage.shop.fleet.lie = Lie(denies=True)
        stage.world.run(minutes=10)

        assert stage.condition("ProviderInconsistent", "one")[:2] == ("True", "MachineNotListed")
        stage.shop.fleet.lie = None
        stage.world.run(minutes=5)

        assert stage.living() == before, "machines that were denied were replaced"
        assert stage.nodes() == nodes
        assert (stage.phase("one"), stage.phase("two")) == ("Ready", "Ready")
        assert stage.condition("ProviderInconsistent", "one") == ("", "", "")


def denied_unseen(seed: str) -> None:
    """The same of machines whose Nodes have not come yet: nothing shows that they are there."""
    with lives(seed, kubelets=QUICK) as stage:
        begin(stage, limits=FULL)
        stage.estate.ailments.aim(Ailment.NEVER_REGISTERS, Ailment.NEVER_REGISTERS)
        for name in ("one", "two"):
            stage.wants(name)
        stage.until(lambda: [each.phase for each in stage.living()] == [Phase.RUNNING] * 2, minutes=10)
        stage.world.run(minutes=1)
        stage.shop.fleet.lie = Lie(denies=True)
        stage.world.run(minutes=12)

        assert len(stage.shop.fleet.machines) == 2, "it was bought again where everything was denied"
        assert stage.condition("Launched", "one")[1] == "ProviderInconsistent"
        assert stage.condition("PresumedLost", "one")[0] == "True"


def denied_alone(seed: str) -> None:
    """A single machine, whose kubelet fell silent, is denied: it may run on, and the class has room for one."""
    with lives(seed, kubelets=QUICK) as stage:
        stage.estate.ailments.aim(Ailment.FALLS_SILENT)
        begin(stage, "one", limits={"maxNodes": 1})
        (machine,) = stage.living()
        stage.until(lambda: stage.condition("Ready", "one")[0] == "False", minutes=60)
        stage.shop.fleet.lie = Lie(denies=True)
        stage.until(lambda: stage.condition("PresumedLost", "one")[0] == "True", minutes=10)
        stage.world.processes["tgp-0"].crash(restart_after=5.0)
        stage.world.run(minutes=10)

        assert stage.living() == [machine], "it was replaced beyond the limit"
        assert "1 of them presumed lost" in stage.condition("Launched", "one")[2]
        stage.shop.fleet.lie = None
        stage.until(lambda: machine not in stage.living(), minutes=6)
        stage.until(lambda: stage.phase("one") == "Ready", minutes=75)


def dear_once(seed: str) -> None:
    """One look shows every price a hundred times as high."""
    with lives(seed, kubelets=QUICK) as stage:
        before = begin(stage, "one", "two", "three", limits=FULL)
        say_for_one_look(stage, Lie(times=100))
        stage.world.run(minutes=3)

        assert stage.living() == before
        prices = {stage.attempts(name)[-1]["hourlyPrice"] for name in ("one", "two", "three")}
        assert all(float(price) < 5 for price in prices), "a price that was said once is on the bill"


def stopped_once(seed: str) -> None:
    """One look shows every machine stopped."""
    with lives(seed, kubelets=QUICK) as stage:
        before = begin(stage, "one", "two", "three")
        say_for_one_look(stage, Lie(phase=Phase.STOPPED))
        stage.world.run(minutes=3)

        assert stage.living() == before


def dearer_for_good(seed: str) -> None:
    """Prices rise by a fifth, truly, and then the class's limit has no room for all: the newest machine goes."""
    with lives(seed, kubelets=QUICK) as stage:
        before = begin(stage, "one", "two", "three")
        total = sum(each.rate_microusd for each in before)
        limit = {"spec": {"limits": {"maxHourlyCost": f"{total * 1.1 / 1_000_000:.6f}"}}}
        stage.world.api.backstage.merge_patch(GPU_NODE_CLASS, "", "rented", limit)
        stage.world.run(seconds=5)
        for machine in before:
            machine.rate_microusd = int(machine.rate_microusd * 1.2)
        stage.until(lambda: before[2] not in stage.living(), minutes=10)
        stage.world.run(minutes=10)

        assert before[0] in stage.living(), "more machines were ended than overdrew the limit"
        assert before[1] in stage.living(), "more machines were ended than overdrew the limit"


LYING: tuple[Callable[[str], None], ...] = (
    denied,
    denied_unseen,
    denied_alone,
    dear_once,
    stopped_once,
    dearer_for_good,
)
