"""The lean form of a world of the bench: the shipped controllers straight on their ports, two replicas of them."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bench.safety import rates
from bench.safety.demand import places
from bench.safety.replica import Replica, readers
from bench.safety.stage import CLASS, Stage, furnish, place, shop_of, witnessed
from tgp.api.resource import GPU_NODE_CLASS, NAMESPACE
from tgp.api.values import rfc3339
from tgp.core.model.key import Key
from tgp.ports.leadership import LeadershipLost
from tgp.sim.estate import Estate
from tgp.sim.faults import NONE
from tgp.sim.lean.lease import SHIPPED, LeanLease
from tgp.sim.lean.looks import Stall
from tgp.sim.lean.world import NO_AIMS, LeanWorld
from tgp.sim.process import Host


@contextmanager
def lean_stage(seed: int, *, faulty: bool, replicas: tuple[str, ...]) -> Iterator[Stage]:
    faults = rates.WEATHER_FAULTS if faulty else NONE
    aims, elsewhere = (rates.AIMS, rates.AIMS_AT_PROVIDER) if faulty else (NO_AIMS, NO_AIMS)
    with LeanWorld(seed, faults=faults, aims=aims, aims_elsewhere=elsewhere) as world:
        world.objects.readers = readers()
        world.objects.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        world.objects.create(NAMESPACE, {"metadata": {"name": "default"}})
        furnish(world, places(seed))
        _look_at_class(world)
        estate = Estate(world.cluster, world.loop, world.clock, seed)
        shop = shop_of(world, seed)
        shop.fleet.habits = replace(shop.fleet.habits, list_lag=rates.LISTED_AFTER)
        world.mount(place(), shop.handle, rates.AT_THE_COUNTER)
        here = witnessed(world, estate, shop, SHIPPED.renew_within, faulty=faulty)
        world.on_lease = lambda host, identity, renewed_at: here.leader.held(identity, host, renewed_at)
        lease, stall = LeanLease(world), Stall(shop, place())

        async def main(host: Host) -> None:
            standing = lease.stand(host, f"{host.name}_{host.number}")
            await standing.won()
            try:
                await Replica(world, host, standing, stall).run()
            except LeadershipLost:
                await host.exit()

        for name in replicas:
            world.process(name, main)
        yield here
        estate.close()


def _look_at_class(world: LeanWorld) -> None:
    """What the classes' own controller would say, which does not run here: it looks after no machine."""
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1}
    since = rfc3339(world.clock.now())
    conditions = [{**ready, "lastTransitionTime": since}]
    world.objects.patch(GPU_NODE_CLASS, Key("", CLASS), {"status": {"conditions": conditions}}, status=True)
