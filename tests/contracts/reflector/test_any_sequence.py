"""Random lives of a cluster, with every trouble mixed in: in the end the store, its indexes and its listeners agree."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contracts.reflector.served import Even, Noted, ServedPods, a_refusal, in_virtual_time
from tgp.adapters.kube.index import by_namespace, by_node, by_phase
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import pods
from tgp.adapters.kube.reflector import REWIND_AFTER, Reflector
from tgp.adapters.kube.store import Store
from tgp.api.resource import POD
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.ports.http import NoAnswer

NAMES = st.sampled_from(["a", "b", "c", "d", "e"])
NODES = st.sampled_from(["", "node-1", "node-2"])
INDEXES = {"namespace": by_namespace, "node": by_node, "phase": by_phase}

STEPS = st.one_of(
    st.tuples(st.just("create"), NAMES),
    st.tuples(st.just("create"), NAMES),
    st.tuples(st.just("move"), NAMES, NODES),
    st.tuples(st.just("run"), NAMES),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(st.sampled_from(["cut", "end", "go deaf", "compact", "repeat", "garble", "refuse", "lose"])),
    st.tuples(st.sampled_from(["freeze", "thaw", "expire inside", "pages", "streams", "relist"])),
    st.tuples(st.just("wait"), st.sampled_from([0.0, 0.001, 0.05, 1.0, 50.0, 100.0])),
)


@dataclass
class Listener:
    """Follows the store by what it is told, and complains when that makes no sense."""

    believed: dict[ObjectKey, Pod] = field(default_factory=dict)

    def hear(self, old: Pod | None, new: Pod | None) -> None:
        key = (old if new is None else new).key
        held = self.believed.get(key)
        if old is None:
            assert held is None, f"{key} came twice"
        else:
            assert held is not None, f"{key} changed or went without having come"
            assert held.uid == old.uid
        if new is None:
            del self.believed[key]
            return
        if old is not None:
            assert old.uid == new.uid, f"{key} became another object without going"
            assert old.resource_version < new.resource_version, f"{key} was told of without a change, or went back"
        self.believed[key] = new


def _apply(served: ServedPods, reflector: Reflector[Pod], step: tuple) -> None:
    match step:
        case ("create", name) if ObjectKey("team", name) not in served.pods:
            served.create(name)
        case ("move", name, node) if ObjectKey("team", name) in served.pods:
            served.move(ObjectKey("team", name), node)
        case ("run", name) if ObjectKey("team", name) in served.pods:
            served.modify(ObjectKey("team", name), phase="Running")
        case ("delete", name) if ObjectKey("team", name) in served.pods:
            served.delete(ObjectKey("team", name))
        case ("repeat",) if served.history:
            served.garble(served.history[-1][1])
        case ("garble",):
            served.garble(b"{")
        case ("refuse",):
            served.refusals.append(a_refusal(503))
        case ("lose",):
            served.refusals.append(NoAnswer("lost"))
        case ("expire inside",):
            served.expired_inside = not served.expired_inside
        case ("pages",):
            served.streaming = "refused"
        case ("streams",):
            served.streaming = "yes"
        case ("relist",):
            reflector.list_again()
        case ("cut",) | ("end",) | ("compact",) | ("freeze",) | ("thaw",):
            getattr(served, step[0])()
        case ("go deaf",):
            served.go_deaf()


async def _live(steps: list[tuple], check: Callable[[Store[Pod], Listener], None]) -> None:
    served = ServedPods()
    store: Store[Pod] = Store(POD, INDEXES)
    listener = Listener()
    store.subscribe(listener.hear)
    reflector = Reflector(served, ListTarget(pods()), store, Even(), Noted())
    task = asyncio.create_task(reflector.run())
    waited = 0.0
    for step in steps:
        if step[0] == "wait":
            await asyncio.sleep(step[1])
            waited += step[1]
            if waited > REWIND_AFTER / 2:  # beyond it an older list is believed: another promise, with its own test
                served.thaw()
                waited = 0.0
        else:
            _apply(served, reflector, step)
        check(store, listener)
    served.thaw()
    served.refusals.clear()
    await asyncio.sleep(300)

    assert not task.done(), "it never ends by itself"
    assert {k: int(p["metadata"]["resourceVersion"]) for k, p in served.pods.items()} == {
        record.key: record.resource_version for record in store.values()
    }
    check(store, listener)
    late = Listener()
    store.subscribe(late.hear)
    assert late.believed == listener.believed
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _consistent(store: Store[Pod], listener: Listener) -> None:
    assert listener.believed == {record.key: record for record in store.values()}
    for index, file in INDEXES.items():
        filed = {word: sorted(r.key for r in store.by_index(index, word)) for word in store.filed(index)}
        expected: dict[str, list[ObjectKey]] = {}
        for record in store.values():
            for word in file(record):
                expected.setdefault(word, []).append(record.key)
        assert filed == {word: sorted(keys) for word, keys in expected.items()}


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps=st.lists(STEPS, min_size=5, max_size=40))
def test_whatever_happens_the_store_ends_up_equal_to_the_cluster(steps):
    """Deletions are heard exactly once, nothing goes back in time, and no index forgets or invents a key."""
    in_virtual_time(_live(steps, _consistent))
