"""The fast form of a world of the benchmark: the shipped controllers directly on their ports, two replicas."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from bench.safety import rates
from bench.safety.environment import SafetyEnv, furnish, place, simulator_of, with_recorder
from bench.safety.replica import Replica, readers
from tgp.api.resource import GPU_NODE_CLASS, NAMESPACE
from tgp.api.values import rfc3339
from tgp.core.model.object_key import ObjectKey
from tgp.ports.leadership import LeadershipLost
from tgp.sim.fast.cloud import SharedProvider
from tgp.sim.fast.lease import SHIPPED, LeanLease
from tgp.sim.fast.world import NO_AIMS, FastWorld
from tgp.sim.faults import NONE
from tgp.sim.node_bootstrap import NodeBootstrap
from tgp.sim.process import Host


@contextmanager
def fast_env(seed: int, *, faulty: bool, replicas: tuple[str, ...]) -> Iterator[SafetyEnv]:
    faults = rates.NETWORK_FAULTS if faulty else NONE
    aims, elsewhere = (rates.AIMS, rates.AIMS_AT_PROVIDER) if faulty else (NO_AIMS, NO_AIMS)
    with FastWorld(seed, faults=faults, aims=aims, aims_elsewhere=elsewhere) as world:
        world.objects.readers = readers()
        world.objects.create(NAMESPACE, {"metadata": {"name": "kube-system"}})
        world.objects.create(NAMESPACE, {"metadata": {"name": "default"}})
        furnish(world, seed)
        look_at_classes(world)
        node_bootstrap = NodeBootstrap(world.cluster, world.loop, world.clock, seed)
        simulator = simulator_of(world, seed)
        simulator.fleet.habits = replace(simulator.fleet.habits, list_lag=rates.LISTED_AFTER)
        world.mount(place(), simulator.handle, rates.AT_THE_COUNTER)
        here = with_recorder(seed, world, node_bootstrap, simulator, term=SHIPPED.renew_within, faulty=faulty)
        world.on_lease = lambda host, identity, renewed_at: here.leader.held(identity, host, renewed_at)
        lease, shared = LeanLease(world), SharedProvider(simulator, place())

        async def main(host: Host) -> None:
            standing = lease.stand(host, f"{host.name}_{host.number}")
            await standing.won()
            try:
                await Replica(world, host, standing, shared).run()
            except LeadershipLost:
                await host.exit()

        for name in replicas:
            world.process(name, main)
        yield here
        node_bootstrap.close()


def look_at_classes(world: FastWorld) -> None:
    """What the classes' own controller would say, which does not run here: it looks after no machine."""
    ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": "", "observedGeneration": 1}
    since = rfc3339(world.clock.now())
    conditions = [{**ready, "lastTransitionTime": since}]
    for each in world.objects.all(GPU_NODE_CLASS):
        key = ObjectKey("", each["metadata"]["name"])
        world.objects.patch(GPU_NODE_CLASS, key, {"status": {"conditions": conditions}}, status=True)
