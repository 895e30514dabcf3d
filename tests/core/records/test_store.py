"""A store never goes back, files what it holds, and waits for our own writes."""

import asyncio

import pytest

from tests.contracts.reflector.served import in_virtual_time
from tgp.adapters.kube.index import by_label, by_node, by_owner
from tgp.adapters.kube.operator_cluster import OperatorCluster
from tgp.adapters.kube.store import CATCH_UP_WITHIN, Store
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, GPU_REQUEST, POD
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef, Pod
from tgp.ports.cluster import ClusterBusy, Conflict, Written

A, B = ObjectKey("team", "a"), ObjectKey("team", "b")


def a_pod(key: ObjectKey = A, version: int = 10, uid: str = "1", **fields) -> Pod:
    return Pod(key=key, resource_version=version, uid=uid, **fields)


@pytest.fixture
def store() -> Store[Pod]:
    indexes = {"node": by_node, "label": by_label("team"), "labels": by_label("team", "app"), "owner": by_owner}
    return Store(POD, indexes)


def test_an_older_version_is_ignored(store):
    store.put(a_pod(version=12, node="new"))
    store.put(a_pod(version=11, node="old"))

    assert store.get(A).node == "new"
    assert store.by_index("node", "old") == []


def test_an_echo_of_something_that_went_does_not_bring_it_back(store):
    store.put(a_pod(version=10))
    store.drop(a_pod(version=12))
    store.put(a_pod(version=11))

    assert len(store) == 0


def test_an_old_deletion_does_not_take_the_new_object(store):
    store.put(a_pod(version=20, uid="new"))
    store.drop(a_pod(version=15, uid="old"))

    assert store.get(A).uid == "new"


def test_the_last_state_is_what_is_announced_of_a_deletion(store):
    """It may be the only place where the end of the last container is told."""
    heard = []
    store.put(a_pod(version=10, phase="Running"))
    store.subscribe(lambda old, new: heard.append((old, new)))
    heard.clear()
    last = a_pod(version=11, phase="Succeeded")
    store.drop(last)

    assert heard == [(last, None)]


def test_indexes_follow_moves_labels_and_owners(store):
    owner = OwnerRef(kind="Job", name="j", uid="u-1")
    store.put(a_pod(version=1, node="n1", labels={"team": "x", "app": "y"}, owners=(owner,)))
    store.put(a_pod(B, version=2, node="n1", labels={"team": "x"}))
    store.put(a_pod(version=3, node="n2", labels={"team": "z"}, owners=(owner,)))

    assert [p.key for p in store.by_index("node", "n1")] == [B]
    assert [p.key for p in store.by_index("label", "team=x")] == [B]
    assert [p.key for p in store.by_index("labels", "app=y")] == []
    assert [p.key for p in store.by_index("owner", "u-1")] == [A]
    store.drop(a_pod(B, version=4))
    assert sorted(store.filed("node")) == ["n2"], "an empty shelf is taken down"


def test_an_unknown_index_is_our_own_mistake(store):
    with pytest.raises(AssertionError, match="no index"):
        store.by_index("colour", "blue")


def test_a_late_subscriber_hears_of_what_is_there(store):
    store.put(a_pod())
    heard = []
    store.subscribe(lambda old, new: heard.append((old, new.key)))

    assert heard == [(None, A)]


def test_caught_up_waits_for_our_write_and_no_longer(store):
    async def scenario():
        store.put(a_pod(version=10))
        store.note_write(A, "12")
        waiting = asyncio.create_task(store.wait_for_own_write(A))
        await asyncio.sleep(1)
        store.put(a_pod(version=11))
        await asyncio.sleep(1)
        assert not waiting.done()
        await store.wait_for_own_write(B)
        store.put(a_pod(version=12))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert waiting.done()
        assert not store.behind(A)

    in_virtual_time(scenario())


@pytest.mark.parametrize("how", ["another object's event", "a bookmark", "its deletion", "a list"])
def test_anything_newer_will_do(store, how):
    async def scenario():
        store.put(a_pod(version=10))
        store.note_write(A, "12")
        waiting = asyncio.create_task(store.wait_for_own_write(A))
        await asyncio.sleep(1)
        match how:
            case "another object's event":
                store.put(a_pod(B, version=13))
            case "a bookmark":
                store.reached(12)
            case "its deletion":
                store.drop(a_pod(version=13))
            case _:
                await store.replace({A: a_pod(version=12)}, 15)
        await asyncio.wait_for(waiting, 0.1)

    in_virtual_time(scenario())


def test_a_view_that_does_not_catch_up_says_so_in_time(store):
    async def scenario():
        store.note_write(A, "12")
        began = asyncio.get_running_loop().time()
        with pytest.raises(ClusterBusy, match="does not show our write"):
            await store.wait_for_own_write(A)

        assert asyncio.get_running_loop().time() - began == pytest.approx(CATCH_UP_WITHIN)

    in_virtual_time(scenario())


def test_a_deletion_is_seen_by_its_mark_its_absence_or_another_uid(store):
    store.put(a_pod(version=10, uid="1"))
    store.note_delete(A, "1")
    assert store.behind(A)
    store.put(a_pod(version=11, uid="2"))
    assert not store.behind(A)
    store.note_delete(A, "2")
    assert store.behind(A)
    store.drop(a_pod(version=12, uid="2"))
    assert not store.behind(A)


def test_a_write_that_came_back_before_its_answer_is_not_waited_for(store):
    store.put(a_pod(version=12))
    store.note_write(A, "12")

    assert not store.behind(A)


def test_notes_do_not_pile_up(store):
    """Each event strikes off the oldest note it has overtaken."""
    for number in range(1000):
        store.note_write(ObjectKey("team", f"pod-{number}"), str(100 + number))
    for number in range(1100):
        store.put(a_pod(B, version=200 + number))

    assert not store._expected


class Writer:
    """Says yes to everything but patches."""

    async def create(self, *_asked, **_more):
        return Written("20", "u", 1, changed=True)

    async def patch(self, *_asked, **_more):
        raise Conflict("changed")

    async def write_status(self, *_asked, **_more):
        return Written("21", "u", 1, changed=True)

    async def evict(self, *_asked, **_more):
        return None

    async def approve(self, *_asked, **_more):
        return Written("30", "u", 1, changed=True)


def test_what_went_through_the_writer_is_noted_in_the_view(store):
    async def scenario():
        requests: Store = Store(GPU_REQUEST)
        asked: Store = Store(CERTIFICATE_SIGNING_REQUEST)
        cluster = OperatorCluster(
            Writer(), {GPU_REQUEST: (requests,), POD: (store,), CERTIFICATE_SIGNING_REQUEST: (asked,)}
        )
        store.put(a_pod(version=5, uid="1"))
        with pytest.raises(Conflict):
            await cluster.patch(GPU_REQUEST, A, {})
        assert not requests.behind(A), "a write that failed is not waited for"
        await cluster.create(GPU_REQUEST, {"metadata": {"namespace": "team", "name": "a"}})
        await cluster.write_status(GPU_REQUEST, B, uid="u", seen={}, status={})
        await cluster.create(GPU_REQUEST, {"metadata": {"generateName": "x-"}})
        await cluster.evict(A, uid="1")
        await cluster.approve("csr", uid="u", resource_version="1", approved=True, reason="Yes", message="yes")

        assert requests.behind(A)
        assert asked.behind(ObjectKey("", "csr"))
        assert requests.behind(B)
        assert store.behind(A)

    in_virtual_time(scenario())
