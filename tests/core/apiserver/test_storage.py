"""One global version, lists as of any remembered moment, and a history that forgets on request."""

import asyncio

import pytest

from tests.core.apiserver.api_client import in_virtual_time
from tgp.sim.apiserver.storage import ObjectStorage, key_of
from tgp.sim.clock import WorldClock


def _store(limit=100):
    return ObjectStorage(WorldClock(asyncio.get_running_loop()), history_limit=limit)


def _obj(name, value=0, namespace="a"):
    return {"metadata": {"name": name, "namespace": namespace, "uid": name}, "value": value}


@in_virtual_time
async def test_every_write_of_any_kind_takes_the_next_version():
    store = _store()
    versions = [store.put("x", _obj("one")).revision, store.put("y", _obj("one")).revision]
    versions.append(store.remove("x", "a", "one").revision)

    assert versions == [2, 3, 4]
    assert store.revision == 4


@in_virtual_time
async def test_records_come_in_the_order_of_their_keys():
    """etcd compares the whole key, so that namespace a-b comes before a."""
    store = _store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a-b", "y"), ("a", "a")):
        store.put("x", _obj(name, namespace=namespace))

    assert [key for key, _ in store.kind_storage("x").range("")] == ["a-b/y", "a/a", "a/z", "b/x"]
    assert [key for key, _ in store.kind_storage("x").range("a")] == ["a/a", "a/z"]
    assert [key for key, _ in store.kind_storage("x").range("a", "a/a")] == ["a/z"]


@in_virtual_time
async def test_an_older_state_can_be_read_until_it_is_compacted():
    store = _store()
    then = store.put("x", _obj("one", 1)).revision
    store.put("x", _obj("one", 2))
    store.put("x", _obj("two"))
    store.remove("x", "a", "one")

    records, keys = store.kind_storage("x").as_of(then)
    assert keys == ["a/one"]
    assert records["a/one"].obj["value"] == 1
    store.compact(then)
    assert store.floor("x") == then
    store.compact()
    assert store.floor("x") == store.revision
    assert store.kind_storage("x").changes == []


@in_virtual_time
async def test_the_history_of_a_kind_is_bounded():
    store = _store(limit=10)
    for number in range(100):
        store.put("x", _obj("one", number))

    assert len(store.kind_storage("x").changes) <= 20
    assert store.floor("x") > 50


@in_virtual_time
async def test_the_last_state_of_a_deleted_object_carries_the_version_of_its_end():
    store = _store()
    store.put("x", _obj("one"))
    gone = store.remove("x", "a", "one")

    assert gone.obj["metadata"]["resourceVersion"] == str(store.revision)


@pytest.mark.parametrize(("namespace", "name", "key"), [("a", "b", "a/b"), ("", "b", "b")])
def test_a_key_is_the_namespace_and_the_name(namespace, name, key):
    assert key_of(namespace, name) == key
