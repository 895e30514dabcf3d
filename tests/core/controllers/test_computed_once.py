"""Values that are kept for as long as the caches hold the very objects they were computed from."""

from itertools import count

from msgspec.structs import replace

from tgp.api.common import Condition
from tgp.api.request import GPURequest, GPURequestSpec, GPURequestStatus
from tgp.controllers.pools.computed_once import SPARE, ComputedOnce, RequestsRead
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey

KEY = ObjectKey("default", "train")


def a_request(*held: str, version: int = 1) -> KubeObject[GPURequest]:
    conditions = tuple(Condition(type=each, status="True") for each in held)
    value = GPURequest(spec=GPURequestSpec(gpu_type="T4"), status=GPURequestStatus(conditions=conditions))
    return KubeObject(key=KEY, uid="1", resource_version=version, value=value)


def test_a_value_is_computed_again_when_an_input_is_another_object():
    kept, numbers = ComputedOnce[int](), count(1)
    node, pod = object(), object()
    asked = [(node,), (node,), (node, pod), (node, pod), (pod, node), (node,)]

    assert [kept.get("node", inputs, lambda: next(numbers)) for inputs in asked] == [1, 1, 2, 2, 3, 4]


def test_an_equal_object_is_another_one():
    kept = ComputedOnce[object]()
    first, second = a_request(), a_request()
    assert first == second
    held = kept.get(KEY, (first,), object)
    assert kept.get(KEY, (second,), object) is not held


def test_what_a_request_says_is_read_again_when_it_changes():
    read, request = RequestsRead(), a_request()
    assert read.of(request).coming
    assert read.of(request) is read.of(request)
    ready = a_request("Initialized", version=2)
    assert not read.of(ready).coming
    assert read.of(a_request("Initialized", "Disrupted", version=3)).ends
    assert read.of(replace(request, resource_version=4)).coming


def test_values_of_objects_that_are_gone_do_not_grow_for_ever():
    kept = ComputedOnce[str]()
    for number in range(SPARE + 3):
        kept.get(number, (KEY,), lambda: "first")
    kept.keep({0})

    assert [kept.get(number, (KEY,), lambda: "second") for number in (0, 1)] == ["first", "second"]
