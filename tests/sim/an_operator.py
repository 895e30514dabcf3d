"""Builders for simulations with the whole operator in them."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta
from functools import cache
from typing import Any

from tests.amounts import PROVING
from tgp.adapters.clouds.registry import facts_of
from tgp.adapters.kube.revision import ASKED_EVERY
from tgp.adapters.kube.runtime import TICK
from tgp.adapters.kube.watch import USUAL, WatchTimes
from tgp.api.crds import crds
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION, GPU_NODE_CLASS, GPU_NODE_POOL, NAMESPACE, SECRET, Resource
from tgp.app.deps import Environment
from tgp.app.operator import Operator
from tgp.app.settings import Settings
from tgp.ports.boot import Boot
from tgp.ports.leadership import LeadershipLost
from tgp.sim.clouds.http_factory import Dialler, origin_of
from tgp.sim.clouds.registry import pretend
from tgp.sim.clouds.simulator import Simulator
from tgp.sim.plain_boot import PlainBoot
from tgp.sim.process import Host
from tgp.sim.world import KUBERNETES, World

NAMESPACE_NAME = "tgp-system"
ALONE = Settings(leader_elect=False)  # one replica: for tests that are not about whose turn it is
# The same, but that `make prove` has it hold the Lease as shipped: of a quiet world half of all work is to renew that.
LONE = Settings() if PROVING else ALONE

# Of all calls in a quiet world, most renew the Lease, begin a watch again or read the revision. Less often is as true,
# and takes a third of the time. `make prove` does it as often as the shipped operator.
RETRY_PERIOD = timedelta(seconds=4)  # shipped: 2
WATCHES = WatchTimes(at_least=300, at_most=400, silence=timedelta(seconds=405))  # shipped: 30 to 40
REVISION_ASKED_EVERY = 60.0  # shipped: 15
SELDOM_TICK = 20.0  # shipped: 1


def operator_main(
    settings: Settings | None = None,
    *,
    shipped: bool = False,
    boot: Boot | None = PlainBoot(),  # noqa: B008 - it has no state
    namespace: str = NAMESPACE_NAME,
):
    """The `main` of a simulated process that runs the operator as it is.

    `shipped`: with the shipped pauses, for tests of what connections that hang and leaders that change do. `boot` None:
    machines boot as Talos.
    """
    said = settings or Settings()
    seldom = not (shipped or PROVING)
    if seldom and said.retry_period == Settings().retry_period:
        said = replace(said, retry_period=RETRY_PERIOD)

    async def main(host: Host) -> None:
        environment = Environment(
            http=host.http(KUBERNETES),
            clock=host.clock,
            entropy=host.entropy,
            host=host.name,
            namespace=namespace,
            compute=host.compute,
            dial=dial_of(host),
            resolver=host.process.doors.resolver,
            boot=boot,
            watches=WATCHES if seldom else USUAL,
            revision_asked_every=REVISION_ASKED_EVERY if seldom else ASKED_EVERY,
            tick=SELDOM_TICK if seldom else TICK,
        )
        try:
            await Operator(said, environment).run()
        except LeadershipLost:
            await host.exit()

    return main


def dial_of(host: Host) -> Dialler:
    """The ways of a simulated process to every provider that is open in its world."""
    return Dialler(host.process.doors.network, host.clock, host)


def open_market(world: World, provider: str, *, moves: bool = False) -> Simulator:
    """A simulated provider where the real one would be; prices stand still unless they shall move."""
    simulator = pretend(provider, world.clock, world.seed)
    if not moves:
        simulator.fleet.habits = replace(simulator.fleet.habits, moves=False)
    world.mount(origin_of(facts_of(provider).endpoint), simulator.handle)
    return simulator


def furnish(world: World) -> None:
    """Our kinds and the operator's namespace."""
    for crd in _crds():
        world.api.local_api.create(CUSTOM_RESOURCE_DEFINITION, crd)
    create(world, NAMESPACE, NAMESPACE_NAME)


@cache
def _crds() -> Iterable[dict[str, Any]]:
    """Made once for all worlds, which copy them."""
    return crds(legacy=True)


def create(world: World, resource: Resource, name: str, namespace: str = "", **rest: Any) -> None:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    obj = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": meta, **rest}
    world.api.local_api.create(resource, obj)


def a_class(world: World, name: str, **spec: Any) -> None:
    default = {"providers": [{"name": "simulated"}], "networking": {"backend": "none"}}
    create(world, GPU_NODE_CLASS, name, spec={**default, **spec})


def a_pool(world: World, name: str, node_class: str, namespace: str = "default", **spec: Any) -> None:
    create(world, GPU_NODE_POOL, name, namespace, spec={"nodeClassRef": {"name": node_class}, **spec})


def a_secret(world: World, name: str, **keys: str) -> None:
    create(world, SECRET, name, NAMESPACE_NAME, stringData=keys)


def ready(world: World, resource: Resource, name: str, namespace: str = "") -> str:
    """The reason of its Ready condition; empty: not set."""
    found = world.api.local_api.get(resource, namespace, name)
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return next((row["reason"] for row in conditions if row["type"] == "Ready"), "")


def writes(world: World) -> list[str]:
    """Changing calls so far, but for the Lease's."""
    return [str(effect) for effect in world.effects if "/leases" not in effect.path]


def settle(world: World) -> None:
    world.until(asyncio.sleep(120))
