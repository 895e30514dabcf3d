"""A history that went back is noticed: by the revision of lists, by reads, and by conflicts."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contracts.reflector.served import Noted, in_virtual_time
from tests.core.requests.an_observation import an_observation
from tgp.adapters.kube.operator_cluster import OperatorCluster
from tgp.adapters.kube.revision import ASKED_EVERY, CALM_FOR, Revision
from tgp.adapters.kube.store import Store
from tgp.api.resource import CONFIG_MAP, GPU_REQUEST, Resource
from tgp.controllers.requests.fresh_read_check import FreshReadCheck
from tgp.core.classes.default_class import IMPLICIT
from tgp.core.model.facts import HistoryRewound
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.workload import Metadata
from tgp.ports.cluster import ClusterBusy, Conflict, NotFound, Written
from tgp.ports.http import Call, NoAnswer, Reply

KEY = ObjectKey("team", "a")


class Answers:
    """An API server that answers every list with the next of these revisions, and goes on with the last."""

    def __init__(self, *revisions: int | None) -> None:
        self.revisions = list(revisions)
        self.asked: list[Call] = []

    async def send(self, call: Call) -> Reply:
        self.asked.append(call)
        told = self.revisions.pop(0) if len(self.revisions) > 1 else self.revisions[0]
        if told is None:
            raise NoAnswer("lost")
        return Reply(200, f'{{"metadata": {{"resourceVersion": "{told}"}}, "items": []}}'.encode())


class Watched:
    def __init__(self, answers: Answers, held: Callable[[], int] = lambda: 0) -> None:
        self.noted = Noted()
        self.rewinds: list[float] = []
        self.revision = Revision(answers, CONFIG_MAP, held, self.noted)  # type: ignore[arg-type]
        self.revision.on_rewound = lambda: self.rewinds.append(asyncio.get_running_loop().time())


def watched_for(seconds: float, watched: Watched, then: Callable[[Watched], Awaitable[None]] | None = None) -> None:
    async def scenario() -> None:
        task = asyncio.create_task(watched.revision.run())
        await asyncio.sleep(seconds)
        if then is not None:
            await then(watched)
        assert not task.done(), "it never ends by itself"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    in_virtual_time(scenario())


@pytest.mark.parametrize(
    ("revisions", "held", "rewinds"),
    [
        pytest.param((7, 8, 8, 9), 0, 0, id="it grows"),
        pytest.param((100, 90), 0, 1, id="it went back"),
        pytest.param((90,), 100, 1, id="below what a store has reached"),
        pytest.param((100, 90, 101), 0, 0, id="one answer of another server is not believed"),
        pytest.param((100, 90, 90, 101), 0, 0, id="nor two"),
        pytest.param((100, None, 101), 0, 0, id="out of reach"),
        pytest.param((100, 90, None, 101), 0, 0, id="out of reach before it was confirmed"),
        pytest.param((100, 90, 90, 90, 91, 92, 93), 0, 1, id="it grows from there on"),
    ],
)
def test_a_revision_that_goes_back_is_told_once(revisions: tuple[int | None, ...], held: int, rewinds: int):
    seen = [held]
    watched = Watched(Answers(*revisions), lambda: seen[0])

    def rewound() -> None:
        watched.rewinds.append(0.0)
        seen[0] = 0  # the stores are listed again

    watched.revision.on_rewound = rewound
    watched_for(8 * ASKED_EVERY, watched)

    assert len(watched.rewinds) == rewinds
    assert len([fact for fact in watched.noted.facts if isinstance(fact, HistoryRewound)]) == rewinds


def test_a_doubt_is_looked_into_at_once():
    async def then(watched: Watched) -> None:
        watched.revision.doubt()
        await asyncio.sleep(3)
        assert len(watched.rewinds) == 1

    watched_for(1, Watched(Answers(90), lambda: 100), then)


def test_contradictions_are_told_once_while_everything_is_listed_again():
    async def then(watched: Watched) -> None:
        for _ in range(3):
            watched.revision.contradicted("ConfigMap team/a has version 4; 5 was seen")
        assert len(watched.rewinds) == 1
        await asyncio.sleep(CALM_FOR)
        watched.revision.contradicted("again")
        assert len(watched.rewinds) == 2

    watched_for(1, Watched(Answers(100)), then)


# -- by what is read ---------------------------------------------------------------------------------------------------


class Stored:
    """A cluster with one object."""

    def __init__(self, version: int | None, uid: str = "u") -> None:
        self.version = version
        self.uid = uid
        self.reads = 0

    async def read(self, _resource: Resource, key: ObjectKey) -> dict[str, Any]:
        self.reads += 1
        if self.version is None:
            raise NotFound(str(key))
        return {"metadata": {"uid": self.uid, "resourceVersion": str(self.version)}}

    async def patch(self, *_asked: Any, resource_version: str = "", uid: str = "") -> Written:
        if (resource_version, uid or self.uid) != (str(self.version), self.uid):
            raise Conflict("it is another")
        return Written(str(self.version), self.uid, 1, changed=True)


class Told:
    def __init__(self) -> None:
        self.words: list[str] = []

    def went_back(self, why: str) -> None:
        self.words.append(why)

    def replaced(self, resource: Resource) -> None:
        self.words.append(resource.plural)


def a_noting(stored: Stored, held: int) -> tuple[OperatorCluster, Told]:
    store: Store[Metadata] = Store(GPU_REQUEST)
    store.put(Metadata(key=KEY, uid="u", resource_version=held))
    told = Told()
    return OperatorCluster(stored, {GPU_REQUEST: (store,)}, told), told  # type: ignore[arg-type]


@pytest.mark.parametrize(("version", "said"), [(4, ["GPURequest team/a has version 4; 5 was seen"]), (5, []), (6, [])])
async def test_an_object_under_a_lower_version_than_held_is_told(version: int, said: list[str]):
    noting, told = a_noting(Stored(version), held=5)
    await noting.read(GPU_REQUEST, KEY)

    assert told.words == said


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        pytest.param(Stored(4), ["GPURequest team/a has version 4; 5 was seen"], id="lower: an older history"),
        pytest.param(Stored(9), [], id="higher: another client wrote, and the watch will show it"),
        pytest.param(Stored(9, "other"), ["gpurequests"], id="another object of that name"),
        pytest.param(Stored(None), ["gpurequests"], id="gone"),
    ],
)
async def test_a_conflict_is_looked_into(stored: Stored, said: list[str]):
    noting, told = a_noting(stored, held=5)
    with pytest.raises(Conflict):
        await noting.patch(GPU_REQUEST, KEY, {}, resource_version="5", uid="u")

    assert told.words == said
    assert stored.reads == 1


async def test_a_conflict_of_a_kind_that_the_operator_may_not_get_is_left_to_the_watch():
    stored = Stored(4)
    noting, told = a_noting(stored, held=5)
    with pytest.raises(Conflict):
        await noting.patch(CONFIG_MAP, KEY, {}, resource_version="5", uid="u")

    assert (told.words, stored.reads) == ([], 0)


# -- the last look -----------------------------------------------------------------------------------------------------


class Versions:
    """A view, or the API server itself: the same objects under versions of their own."""

    def __init__(self, **versions: int) -> None:
        self.versions = versions

    async def read(self, resource: Resource, _key: ObjectKey) -> dict[str, Any]:
        uid = "u" if resource.kind != "GPURequest" else UID
        return {"metadata": {"uid": uid, "resourceVersion": str(self.versions[resource.kind])}}


UID = an_observation().record.uid_text


@pytest.mark.parametrize("kind", ["Namespace", "GPUNodeClass", "GPURequest"])
@pytest.mark.parametrize(("version", "passes"), [(6, False), (7, True), (8, False)])
async def test_the_last_look_takes_the_version_that_is_held_and_no_other(kind: str, version: int, passes: bool):
    record = an_observation().record
    plain = {ObjectKey("", "tgp-system"): Metadata(key=ObjectKey("", "tgp-system"), uid="u", resource_version=7)}
    classes = {ObjectKey("", "rented"): Metadata(key=ObjectKey("", "rented"), uid="u", resource_version=7)}

    views = SimpleNamespace(namespaces=plain, classes=classes, requests={record.key: record})
    stands = {"Namespace": 7, "GPUNodeClass": 7, "GPURequest": 7} | {kind: version}
    look = FreshReadCheck(views, Versions(**stands), home="tgp-system", boottime=lambda: 0.0)  # type: ignore[arg-type]
    if passes:
        await look.confirm(record.key, "rented")
    else:
        with pytest.raises(ClusterBusy):
            await look.confirm(record.key, "rented")


async def test_the_last_look_does_not_take_another_object_of_the_same_version():
    record = an_observation().record
    views = SimpleNamespace(namespaces={}, classes={}, requests={record.key: record})

    class Other(Versions):
        async def read(self, resource: Resource, key: ObjectKey) -> dict[str, Any]:
            if resource.kind == "Namespace":
                raise NotFound(str(key))
            return {"metadata": {"uid": "another", "resourceVersion": "7"}}

    with pytest.raises(ClusterBusy):
        look = FreshReadCheck(views, Other(), home="tgp-system", boottime=lambda: 0.0)  # type: ignore[arg-type]
        await look.confirm(record.key, "implicit")


class Hands:
    """A view and an API server that a test changes, and a clock."""

    def __init__(self) -> None:
        self.now, self.reads, self.failing = 100.0, 0, False
        self.record = an_observation().record
        self.home = {
            ObjectKey("", "tgp-system"): Metadata(key=ObjectKey("", "tgp-system"), uid="u", resource_version=7)
        }
        self.stored = {"Namespace": 7, "GPURequest": 7}
        views = SimpleNamespace(namespaces=self.home, classes={}, requests={self.record.key: self.record})
        self.look = FreshReadCheck(views, self, home="tgp-system", boottime=lambda: self.now)  # type: ignore[arg-type]

    async def read(self, resource: Resource, _key: ObjectKey) -> dict[str, Any]:
        self.reads += resource.kind == "Namespace"
        version = self.stored[resource.kind]
        await asyncio.sleep(0)
        if self.failing:
            raise ClusterBusy("503")
        return {"metadata": {"uid": "u" if resource.kind == "Namespace" else UID, "resourceVersion": str(version)}}

    def cache_shows(self, version: int) -> None:
        (key,) = self.home
        self.home[key] = Metadata(key=key, uid="u", resource_version=version)

    async def confirm(self) -> float:
        return await self.look.confirm(self.record.key, IMPLICIT)


async def test_all_orders_of_a_second_share_the_reads_of_what_they_have_in_common():
    hands = Hands()

    assert await asyncio.gather(*(hands.confirm() for _ in range(50))) == [100.0] * 50
    hands.now += 0.9
    assert await hands.confirm() == 100.0, "an order is valid from the start of the oldest read"
    assert hands.reads == 1
    hands.now += 0.1
    assert await hands.confirm() == 101.0
    assert hands.reads == 2


async def test_a_hold_that_is_a_second_old_is_seen_even_if_the_watch_has_stopped():
    hands = Hands()
    await hands.confirm()
    hands.stored["Namespace"] = 8  # tgp hold, and no watch reports it
    hands.now += 1.0
    with pytest.raises(ClusterBusy):
        await hands.confirm()


async def test_a_cache_that_moved_on_with_its_watch_will_do_and_one_that_went_back_will_not():
    hands = Hands()
    await hands.confirm()
    hands.cache_shows(9)
    await hands.confirm()
    hands.cache_shows(6)
    with pytest.raises(ClusterBusy):
        await hands.confirm()


async def test_a_read_that_failed_is_shared_only_with_those_that_waited_for_it():
    hands = Hands()
    hands.failing = True
    answers = await asyncio.gather(*(hands.confirm() for _ in range(3)), return_exceptions=True)
    hands.failing = False

    assert [type(each) for each in answers] == [ClusterBusy] * 3
    assert hands.reads == 1
    assert await hands.confirm() == 100.0
