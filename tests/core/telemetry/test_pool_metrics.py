"""A pool's limits as metrics: in the units that users write, and never below zero."""

from tgp.adapters.telemetry.pools import PoolLimitCollector
from tgp.api.nodepool import PoolLimits
from tgp.core.inventory.limits import Reservation, rooms_left, usage_of
from tgp.core.model.object_key import ObjectKey

GPU = "nvidia.com/gpu"
JOBS, OTHER = ObjectKey("ml", "jobs"), ObjectKey("ml", "other")
LIMITS = PoolLimits(resources={GPU: 8, "nodes": 1, "cpu": "64", "memory": "1Gi"})
USED = usage_of([Reservation("one", 1_000_000, gpus=2, vcpus=16), Reservation("two", 1_000_000, gpus=4, vcpus=8)])


def test_each_limit_of_a_pool_is_shown_with_what_is_left_of_it():
    rooms = [(JOBS, rooms_left(LIMITS, USED)), (OTHER, rooms_left(None, USED))]
    found = {
        (sample.name, sample.labels["resource"]): sample.value
        for family in PoolLimitCollector(lambda: rooms).collect()
        for sample in family.samples
        if (sample.labels["namespace"], sample.labels["pool"]) == JOBS
    }
    assert found == {
        ("tgp_pool_limit", GPU): 8,
        ("tgp_pool_limit_left", GPU): 2,
        ("tgp_pool_limit", "nodes"): 1,
        ("tgp_pool_limit_left", "nodes"): 0,
        ("tgp_pool_limit", "cpu"): 64,
        ("tgp_pool_limit_left", "cpu"): 40,
        ("tgp_pool_limit", "memory"): 1 << 30,
        ("tgp_pool_limit_left", "memory"): 0,  # not known of its machines: such a limit allows no other
    }
