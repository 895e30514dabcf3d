"""A nomination is written on the pod as it was seen, and again when the scheduler has removed it."""

from typing import Any

import msgspec
import pytest

from tests.core.pools.builders import a_pod
from tests.core.pools.test_nominations import ANY, CHEAP, EXPENSIVE, LARGE
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.nominator import VERSION_KEPT_S, Nominator
from tgp.core.model.facts import Fact, NominationUnsupported, PodNominated
from tgp.core.pools.nominations import HELD_S, LATEST_S, LONGEST_QUIET_S, QUIET_S, RenominationPace, node_of
from tgp.ports.cluster import ClusterBusy, Conflict, Forbidden, NotFound, Refused, WriteUnknown

PICKY = a_pod("picky", affinity=LARGE, resource_version=7)


class World:
    """The parts of a cluster, a clock and a journal that a nomination uses."""

    def __init__(self, version: str = "v1.36.3", error: Exception | None = None) -> None:
        self.answer, self.error = version, error
        self.written: list[dict[str, Any]] = []
        self.facts: list[Fact] = []
        self.asked, self.tick = 0, 0.0
        self.memory = PoolMemory()
        self.nominator = Nominator(self.memory, cluster=self, journal=self, clock=self)  # type: ignore[arg-type]

    async def version(self) -> str:
        self.asked += 1
        return self.answer

    async def write_status(self, _resource, key, **rest) -> None:
        if self.error is not None:
            raise self.error
        self.written.append({"key": key.name, **rest})

    def note(self, fact: Fact) -> None:
        self.facts.append(fact)

    def boottime(self) -> float:
        return self.tick

    async def nominate(self, resource_version: int = 7) -> bool:
        """Whether nothing is left to do."""
        picky = msgspec.structs.replace(PICKY, resource_version=resource_version)
        await self.nominator.nominate([ANY, picky], (CHEAP, EXPENSIVE), {node_of(EXPENSIVE)})
        return self.nominator.pace.due is None

    def remove(self) -> None:
        """As the scheduler does."""
        self.nominator.pace.removed(self.tick)


async def test_the_node_is_written_on_the_pod_as_it_was_seen_and_not_again_before_the_view_shows_it():
    world = World()

    assert [await world.nominate(), await world.nominate()] == [True, True]

    (written,) = world.written
    assert written == {
        "key": "picky",
        "uid": "uid-picky",
        "seen": {},
        "status": {"nominatedNodeName": node_of(EXPENSIVE)},
        "resource_version": "7",
    }
    assert [type(fact) for fact in world.facts] == [PodNominated]


async def test_what_the_scheduler_has_removed_is_written_again_and_told_once():
    world = World()

    for version in (7, 9, 11):  # each time it shows no nomination
        assert await world.nominate(version)
        world.remove()
        world.tick += HELD_S

    assert [row["resource_version"] for row in world.written] == ["7", "9", "11"]
    assert [type(fact) for fact in world.facts] == [PodNominated]


async def test_nothing_is_written_again_while_the_scheduler_still_removes_nominations():
    """Each removal makes it try the other pods again: it would remove what is written meanwhile."""
    world = World()
    await world.nominate()

    for version in range(9, 13):
        world.tick += QUIET_S / 2
        world.remove()
        assert not await world.nominate(version)
    assert len(world.written) == 1

    world.tick += 2 * QUIET_S  # doubled: the first was removed as soon as it was written
    assert await world.nominate(13)
    assert len(world.written) == 2


async def test_a_scheduler_that_removes_it_each_time_at_once_is_asked_ever_less_often():
    world, hour = World(), 3600.0

    while world.tick < hour:
        await world.nominate(round(world.tick * 1000))
        world.remove()
        world.tick = world.nominator.pace.due or 0.0

    assert hour / LONGEST_QUIET_S <= len(world.written) < hour / LONGEST_QUIET_S + 5


def test_where_it_is_never_quiet_they_are_written_again_all_the_same():
    pace = RenominationPace()
    for tenth in range(100):
        pace.removed(tenth / 10)
    assert pace.due == LATEST_S


@pytest.mark.parametrize("error", [Conflict("changed"), ClusterBusy("later"), WriteUnknown("no answer")])
async def test_what_may_help_is_tried_again(error):
    world = World(error=error)

    assert not await world.nominate()
    world.error, world.tick = None, QUIET_S
    assert await world.nominate()
    assert len(world.written) == 1


@pytest.mark.parametrize("error", [NotFound("gone"), Refused("no"), Forbidden("no")])
async def test_what_does_not_help_is_not_tried_again(error):
    world = World(error=error)

    assert await world.nominate()
    world.error = None
    assert await world.nominate(9)
    assert (world.written, world.facts) == ([], [])


async def test_an_older_kubernetes_gets_nothing_and_its_upgrade_is_noticed_within_the_hour():
    world = World("v1.34.2")

    assert [await world.nominate(), await world.nominate()] == [True, True]
    assert (world.written, world.asked) == ([], 1)
    (fact,) = world.facts
    assert isinstance(fact, NominationUnsupported)
    assert (fact.subject.key.name, fact.version) == ("train", "v1.34.2")

    world.answer, world.tick = "v1.35.0", VERSION_KEPT_S + 1
    assert await world.nominate()
    assert len(world.written) == 1


async def test_a_pod_that_waits_no_longer_is_forgotten():
    world = World()
    await world.nominate()

    world.memory.forget_pods({"uid-any": ANY})

    assert world.memory.nominated == {}


async def test_a_nomination_of_ours_is_taken_back_when_its_node_is_gone():
    world = World()
    nominated = a_pod("picky", affinity=LARGE, resource_version=8, nominated_node=node_of(EXPENSIVE))
    by_scheduler = a_pod("other", nominated_node="gone")
    await world.nominate()
    await world.nominator.nominate([ANY, nominated, by_scheduler], (CHEAP,), set())
    await world.nominator.nominate([ANY, PICKY], (CHEAP,), set())

    _, taken_back = world.written
    assert taken_back["key"] == "picky"
    assert (taken_back["seen"], taken_back["status"]) == ({"nominatedNodeName": node_of(EXPENSIVE)}, {})
    assert len(world.facts) == 1


def test_a_machine_is_not_kept_for_a_pod_that_waits_no_longer():
    memory = PoolMemory(placed={"uid-any": "node-1", "uid-picky": "node-2"})

    memory.forget_pods({"uid-any": ANY})
    assert memory.placed == {"uid-any": "node-1"}
    memory.forget_pods({})
    assert memory.placed == {}
