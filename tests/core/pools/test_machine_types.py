"""What machines of a type really had is learned once per machine, and written only when it says something new."""

from datetime import timedelta

import pytest

from tests.core.pools.builders import GIB, GPU, NOW, a_condition, a_node, a_request, ago, an_attempt, an_offer, written
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode
from tgp.core.model.resources import Resources
from tgp.core.pools.machine_types import (
    MOST_TYPES,
    MachineTypes,
    SeenShape,
    line_of,
    owned_shape,
    read_line,
    seen_shape,
    surplus,
    to_write,
    with_learned_gpu,
)

KEY = "simulated/t4.1/us-west-1/on-demand"


def initialised(name="train-1", *, minutes=10.0, **status):
    attempt = an_attempt(reservedAt=written(ago(minutes=minutes)), launchedAt=written(ago(minutes=minutes)))
    given = {"conditions": [a_condition("Initialized")], "attempts": [{**attempt, "token": name}], **status}
    return a_request(name, **given)


def a_shape(offer=KEY, *, minutes=10.0, memory=32 * GIB, **rest):
    given = {"cpu_milli": 8000, "others": {GPU: 4, "pods": 110}, "boot_seconds": 200, **rest}
    return SeenShape(offer=offer, ordered_at=ago(minutes=minutes), memory_bytes=memory, **given)


def test_a_machine_that_is_initialised_tells_what_it_has():
    seen = seen_shape(initialised(readyAt=written(ago(minutes=7))), a_node())

    assert seen == a_shape(boot_seconds=180)
    assert seen.shape.allocatable == a_node().allocatable


@pytest.mark.parametrize(
    ("request_", "node"),
    [
        (initialised(conditions=[]), a_node()),
        (initialised(attempts=[]), a_node()),
        (initialised(attempts=[an_attempt(reservedAt=written(NOW), endedAt=written(NOW))]), a_node()),
        (initialised(), None),
        (initialised(), a_node(ready=None)),
        (initialised(), a_node(gpus=0)),
        (initialised(), a_node(labels={"tgp.io/request-uid": "another"})),
    ],
    ids=["not initialised", "no attempt", "ended", "no Node", "silent", "its device plugin restarts", "another's"],
)
def test_others_tell_nothing(request_, node):
    assert seen_shape(request_, node) is None


def test_a_line_is_read_as_it_was_written():
    assert read_line(line_of(a_shape())) == a_shape()


@pytest.mark.parametrize(
    "line",
    [
        None,
        "",
        "[]",
        line_of(a_shape()).replace("8000", "-1"),
        line_of(a_shape()).replace("+00:00", "").replace("Z", ""),
        "{" * 1000,
    ],
)
def test_a_malformed_line_counts_as_absent(line):
    assert read_line(line) is None


@pytest.mark.parametrize(
    ("seen", "written_"),
    [
        (a_shape(minutes=5), False),
        (a_shape(minutes=5, memory=int(31.8 * GIB)), False),
        (a_shape(minutes=5, boot_seconds=240), False),
        (a_shape(minutes=5, memory=int(31.5 * GIB)), True),
        (a_shape(minutes=5, boot_seconds=400), True),
        (a_shape(minutes=5, others={GPU: 3, "pods": 110}), True),
        (a_shape(minutes=15, memory=16 * GIB), False),
        (a_shape("simulated/t4.2/us-west-1/on-demand", minutes=15), True),
    ],
    ids=["same", "noise", "boot noise", "smaller", "slower", "fewer GPUs", "an older machine", "another type"],
)
def test_only_what_differs_is_written(seen, written_):
    known = a_shape()

    assert to_write(seen, {known.name: known}) is written_


def test_the_newest_types_are_kept():
    """And an older one is not written into a full table, only to be dropped again."""
    shapes = [a_shape(f"simulated/{number}//spot", minutes=number) for number in range(1, MOST_TYPES + 1)]
    table = {each.name: each for each in shapes}
    old, new = a_shape("simulated/old//spot", minutes=9999), a_shape("simulated/new//spot", minutes=0)

    assert surplus(table) == []
    assert not to_write(old, table)
    assert to_write(new, table)
    assert surplus({**table, new.name: new}) == [shapes[-1].name]


def test_the_newest_machine_of_a_type_counts_and_only_as_it_was_at_first():
    types = MachineTypes()
    types.restore([a_shape(minutes=20, memory=30 * GIB)])
    types.learn(initialised(), a_node())
    types.learn(initialised(), a_node(gpus=1))
    types.learn(initialised("train-2", minutes=30), a_node(gpus=2))

    assert types.shapes[KEY].allocatable == a_node().allocatable


def launched(number, **rest):
    return initialised(f"train-{number}", **rest)


def sold_out(number):
    attempt = an_attempt(outcome="SoldOut", endedAt=written(NOW))
    return a_request(f"train-{number}", attempts=[{**attempt, "token": f"sold-out-{number}"}])


def test_launches_that_succeeded_are_counted_once_until_it_is_sold_out():
    types, since = MachineTypes(), ago(hours=1)
    for number in (1, 2, 2, 3):
        types.count(launched(number), since)
    assert types.successes == {KEY: 3}

    types.count(sold_out(4), since)
    assert types.successes == {}

    for number in (1, 2, 3, 4, 5):
        types.count(sold_out(4) if number == 4 else launched(number), since)
    assert types.successes == {KEY: 1}


def test_launches_of_an_earlier_process_are_not_counted():
    types = MachineTypes()
    types.count(launched(1, minutes=10), NOW - timedelta(minutes=5))

    assert types.successes == {}


def test_an_owned_machine_has_what_its_node_last_reported():
    """A kubelet that shut down reports no GPUs: the class tells them."""
    offer = an_offer("box", boot=BootMode.POWER, vcpus=0, memory_gib=0, gpu_count=2)
    off = a_node("box", gpus=0, ready=None)

    shape = owned_shape(offer, off)
    assert shape is not None
    assert shape.allocatable == Resources(8000, 32 * GIB, ((GPU, 2), ("pods", 110)))


@pytest.mark.parametrize(
    ("offer", "node"),
    [
        (an_offer(boot=BootMode.POWER), a_node()),
        (an_offer(vcpus=0), a_node()),
        (an_offer(boot=BootMode.POWER, vcpus=0), None),
        (an_offer(boot=BootMode.POWER, vcpus=0), a_node(allocatable=Resources())),
    ],
    ids=["the class tells", "rented", "no Node", "a Node that never reported"],
)
def test_other_offers_are_taken_as_they_are(offer, node):
    assert owned_shape(offer, node) is None


@pytest.mark.parametrize(
    ("labels", "model", "memory"),
    [
        ({"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}, "RTX4090", 24),
        ({"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}, "A100-80GB-SXM", 80),
        ({"nvidia.com/gpu.product": "Tesla-T4-SHARED"}, "T4", 16),
        ({"nvidia.com/gpu.product": "RTX-3060", "nvidia.com/gpu.memory": "12288"}, "RTX3060-12GB", 12),
        ({"nvidia.com/gpu.product": "RTX-3060"}, "unknown", 0),
        ({"nvidia.com/gpu.product": "RTX-3060", "nvidia.com/gpu.memory": "much"}, "unknown", 0),
        ({"nvidia.com/gpu.product": "Voodoo-2"}, "unknown", 0),
        ({}, "unknown", 0),
    ],
)
def test_the_model_of_an_owned_machine_is_that_of_its_node_also_while_it_is_off(labels, model, memory):
    offer = an_offer("box", boot=BootMode.POWER, gpu="unknown", gpu_memory_gib=0)
    found = with_learned_gpu(offer, a_node("box", ready=None, labels=labels))

    assert (found.gpu, found.gpu_memory_gib) == (model, memory)
    assert found.key == offer.key


def test_a_model_that_the_class_names_is_not_learned():
    node = a_node("box", labels={"nvidia.com/gpu.product": "Tesla-T4"})
    named = an_offer("box", boot=BootMode.POWER, gpu="RTX4090")
    rented = an_offer("box", gpu="unknown")

    assert with_learned_gpu(named, node) == named
    assert with_learned_gpu(rented, node) == rented
    assert with_learned_gpu(an_offer("box", boot=BootMode.POWER, gpu="unknown"), None).gpu == "unknown"


def test_a_request_that_is_gone_is_forgotten():
    types = MachineTypes()
    types.count(launched(1), ago(hours=1))
    types.forget(ObjectKey("default", "train-1"))
    types.count(launched(1), ago(hours=1))

    assert types.successes == {KEY: 2}
