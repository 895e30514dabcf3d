"""What a plan is made from is read once for each version of an object, and never of an older one."""

import asyncio

import msgspec
import pytest

from bench.karpenter.cases import gpu_market
from bench.karpenter.ours import NOW, a_world
from bench.planner.observed import an_observer, fill
from tgp.controllers.deps import Stores
from tgp.controllers.pools.observe import READ_AT_ONCE, PlanObservation, WorldObserver
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.resources import Resources
from tgp.core.pools.planner.classes import MAX_PRICE

PODS, MACHINES = 20, 30


@pytest.fixture
def stores() -> Stores:
    return Stores()


@pytest.fixture
def observer(stores: Stores) -> WorldObserver:
    found = an_observer(stores)
    fill(stores, a_world(gpu_market(PODS, 3, 1, 10)), MACHINES)
    return found


def free_gpus(seen: PlanObservation, name: str) -> int:
    return next(each.free.of("nvidia.com/gpu") for each in seen.world.capacity if each.name == name)


@pytest.mark.parametrize("ahead", [False, True])
def test_what_changed_since_it_was_read_is_read_again(stores: Stores, observer: WorldObserver, ahead: bool) -> None:
    before = observer.observe(NOW)
    assert (len(before.world.pods), len(before.world.capacity)) == (PODS, MACHINES)
    waiting = stores.pods.get(before.world.pods[0].key)
    running = stores.pods.get(ObjectKey("default", "machine-1-0"))
    node = stores.nodes.get(ObjectKey("", "machine-2"))
    assert waiting is not None
    assert running is not None
    assert node is not None

    large = Resources(8000, 1 << 36, (("nvidia.com/gpu", 7),))
    stores.pods.put(msgspec.structs.replace(waiting, resource_version=2, annotations={MAX_PRICE: "0.5"}))
    stores.pods.put(msgspec.structs.replace(running, resource_version=2, phase="Succeeded"))
    stores.nodes.put(msgspec.structs.replace(node, resource_version=2, allocatable=large))
    if ahead:
        asyncio.run(observer.read_ahead())
    after = observer.observe(NOW)

    assert [pod.annotations for pod in after.world.pods if pod.key == waiting.key] == [{MAX_PRICE: "0.5"}]
    assert (free_gpus(before, "machine-1"), free_gpus(after, "machine-1")) == (0, 1)
    assert (free_gpus(before, "machine-2"), free_gpus(after, "machine-2")) == (0, 6)


def test_a_pod_that_waits_no_longer_is_no_demand(stores: Stores, observer: WorldObserver) -> None:
    asyncio.run(observer.read_ahead())
    pod = stores.pods.get(observer.observe(NOW).world.pods[0].key)
    assert pod is not None
    stores.pods.put(msgspec.structs.replace(pod, resource_version=2, node="machine-3", unplaced_reason=""))
    seen = observer.observe(NOW)
    assert len(seen.world.pods) == PODS - 1
    assert pod.key in [each.key for room in seen.world.capacity for each in room.pods]


def test_other_work_runs_while_it_reads_ahead(stores: Stores, observer: WorldObserver) -> None:
    fill(stores, a_world(gpu_market(3 * READ_AT_ONCE, 3, 1, 10)), 3 * READ_AT_ONCE)

    async def turns() -> int:
        reading, many = asyncio.create_task(observer.read_ahead()), 0
        while not reading.done():
            await asyncio.sleep(0)
            many += 1
        return many

    assert asyncio.run(turns()) >= 8  # three kinds of objects, three parts of each
