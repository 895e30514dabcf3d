"""What a plan is made again for: a change that it reads."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tgp.api.nodepool import GPUNodePool
from tgp.controllers.pools.planner import PLAN_KEY, PoolPlanner
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import pack_uid

UID = "00000000-0000-4000-8000-000000000001"
BEFORE = KubeObject(
    key=ObjectKey("ml", "train"),
    uid=pack_uid(UID),
    resource_version=1,
    generation=1,
    value=msgspec.convert({"metadata": {"name": "train"}, "spec": {"nodeClassRef": {"name": "cheap"}}}, GPUNodePool),
)


def changed(**rest: Any) -> KubeObject[GPUNodePool]:
    return replace(BEFORE, resource_version=2, **rest)


def test_the_status_that_follows_a_plan_causes_no_other():
    """Otherwise a pod that waits for a machine would be planned for again with every number that is written."""
    assert tuple(PoolPlanner.of_pool(BEFORE, changed())) == ()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, BEFORE),
        (BEFORE, None),
        (BEFORE, changed(generation=2)),
        (BEFORE, changed(uid=pack_uid(UID.replace("1", "2")))),
        (BEFORE, changed(value=None)),
        (BEFORE, changed(deletion_requested_at=datetime(2026, 1, 5, tzinfo=UTC))),
    ],
    ids=["created", "gone", "edited", "recreated", "unreadable", "deleting"],
)
def test_what_a_plan_reads_of_a_pool_causes_one(
    old: KubeObject[GPUNodePool] | None, new: KubeObject[GPUNodePool] | None
):
    assert tuple(PoolPlanner.of_pool(old, new)) == (PLAN_KEY,)
