"""Which machines go once no pod uses them."""

import msgspec
import pytest

from tests.core.disruption.machines import a_machine
from tests.core.pools.builders import NOW, a_pool, ago, an_attempt, written
from tests.core.pools.planner.worlds import a_class
from tests.core.pools.planner.worlds import a_pool as planned_pool
from tgp.controllers.disruption.machine_facts import ending_machines, moves_under_way
from tgp.core.disruption.ending import ending_machine
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef


def of_user(**spec):
    record = a_machine().record
    value = msgspec.structs.replace(record.value, spec=msgspec.structs.replace(record.value.spec, **spec))
    return msgspec.structs.replace(record, value=value)


@pytest.mark.parametrize(
    ("pool", "anchor", "goes"),
    [
        ({}, "uid-pod", True),
        ({"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"}}, "uid-pod", True),
        ({"disruption": {"consolidationPolicy": "Never"}}, "uid-pod", False),
        ({"disruption": {"consolidateAfter": "Never"}}, "uid-pod", False),
        ({"replicas": 2}, "slot-0.u", False),
        ({"replicas": 2}, "uid-pod", True),
    ],
)
def test_a_machine_of_a_pool_goes_where_the_pool_lets_empty_ones_go(pool, anchor, goes):
    found = ending_machine(a_machine(anchor=anchor).record, a_pool(**pool).value, {})

    assert (found is not None) is goes


def test_a_users_machine_goes_where_it_has_an_idle_timeout():
    assert ending_machine(of_user(idle_timeout="30m"), None, {}) is not None
    assert ending_machine(of_user(idle_timeout="Never"), None, {}) is None


def test_a_request_without_a_machine_costs_nothing():
    assert ending_machine(a_machine(attempts=[]).record, None, {}) is None


BOX = {
    "name": "box-1",
    "gpuCount": 2,
    "scaleUpEndpoint": "http://power.example/on",
    "scaleDownEndpoint": "http://power.example/off",
    "minOnTime": "3h",
}
OWNED = a_class("c", providers=[{"name": "webhook", "settings": {"machines": [BOX]}}])
AT_HOME = {**an_attempt()["offer"], "provider": "webhook", "instanceType": "box-1", "bootMode": "power"}


def in_a_pool(name: str = "r1", **rest):
    """`a_machine` was launched two hours ago."""
    record = a_machine(name, **rest).record
    return msgspec.structs.replace(record, owners=(OwnerRef("GPUNodePool", "p", "uid-pool", "tgp.io/v1", True),))


def ending(*records):
    pool = KubeObject(key=ObjectKey("default", "p"), uid="uid-pool", value=planned_pool(node_class=OWNED).pool)
    classes = {ObjectKey("", "c"): KubeObject(key=ObjectKey("", "c"), value=OWNED)}
    joined = [(f"node-{each.key.name}", each) for each in records]
    return set(ending_machines(joined, moves_under_way(records), (pool,), classes, losses={}, now=NOW))


def test_a_machine_you_own_that_is_kept_on_does_not_go():
    at_home = [an_attempt(outcome="Launched", launchedAt=written(ago(hours=2)), offer=AT_HOME)]
    long_on = [an_attempt(outcome="Launched", launchedAt=written(ago(hours=4)), offer=AT_HOME)]

    assert ending(in_a_pool(attempts=at_home)) == set()
    assert ending(in_a_pool(attempts=long_on)) == {"node-r1"}


def test_a_replacement_does_not_go_while_what_it_replaces_is_there():
    marks = {"tgp.io/move": "m1", "tgp.io/replaces": "r1"}
    replacement, replaced = in_a_pool("r2", annotations=marks), in_a_pool(annotations={"tgp.io/move": "m1"})

    assert ending(replacement, replaced) == {"node-r1"}
    assert ending(replacement) == {"node-r2"}
