"""What a machine cost is written once, whatever others did to the page, and whatever broke in between."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.core.model.test_spend import NOW, UID, an_entry
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.store import Store
from tgp.api.resource import CONFIG_MAP, NAMESPACE, NODE
from tgp.controllers.instances.machine_ends import MachineEnds
from tgp.controllers.instances.spend_log import MOST_PAGES, TOLD_AT_ONCE, SpendLog
from tgp.controllers.requests.indexes import NODES_BY_MACHINE, by_machine
from tgp.core.model import spend
from tgp.core.model.identity import CLUSTER_DIGITS
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.spend import MOST_BYTES, SPEND_LABEL, SpendEntry, entries, line_of
from tgp.core.model.token import token_for
from tgp.core.requests.node_state import provider_id_of
from tgp.ports.cluster import Conflict, NotFound, Refused, WriteUnknown
from tgp.sim.apiserver.server import ApiServer
from tgp.sim.entropy import SeededEntropy
from tgp.sim.world import World

HOME = "tgp-system"
PAGE = ObjectKey(HOME, "tgp-spend-2026-11")
SECOND = ObjectKey(HOME, "tgp-spend-2026-11-2")


class Breaking:
    """A cluster whose writes count, and fail once on request: before they happen, or after."""

    def __init__(self, inner: KubeCluster) -> None:
        self.inner = inner
        self.writes = 0
        self.before: Exception | None = None
        self.after: Exception | None = None

    async def read(self, *what: Any) -> dict[str, Any]:
        return await self.inner.read(*what)

    async def create(self, *what: Any) -> Any:
        return await self._write(self.inner.create(*what))

    async def patch(self, *what: Any, **how: Any) -> Any:
        return await self._write(self.inner.patch(*what, **how))

    async def _write(self, write: Awaitable[Any]) -> Any:
        self.writes += 1
        before, self.before, after, self.after = self.before, None, self.after, None
        if before is not None:
            write.close()
            raise before
        written = await write
        if after is not None:
            raise after
        return written

    async def pages(self) -> list[dict[str, Any]]:
        found = []
        for number in range(1, MOST_PAGES + 1):
            try:
                found.append(await self.inner.read(CONFIG_MAP, ObjectKey(HOME, spend.page_name("2026-11", number))))
            except NotFound:
                return found
        return found

    async def put(self, key: ObjectKey, data: dict[str, str], **more: Any) -> None:
        await self.inner.create(
            CONFIG_MAP, {"metadata": {"namespace": key.namespace, "name": key.name}, "data": data, **more}
        )


AccountSetup = Callable[[Breaking, SpendLog], Awaitable[None]]


def play(setup: AccountSetup) -> None:
    """On the pretend API server."""

    async def whole(http: Any) -> None:
        cluster = KubeCluster(http, SeededEntropy(1, "books"))
        await cluster.create(NAMESPACE, {"metadata": {"name": HOME}})
        breaking = Breaking(cluster)
        await setup(breaking, SpendLog(breaking, HOME))

    with World(1) as world:
        server = ApiServer(world.clock, SeededEntropy(1, "apiserver"))
        world.mount("kube", server.handle)
        world.until(whole(world.visitor("kube")))


def test_the_first_entry_of_a_month_makes_its_page():
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        await spend_log.enter(an_entry())

        (page,) = await cluster.pages()
        assert page["metadata"]["labels"][SPEND_LABEL] == "2026-11"
        assert entries([page]) == (an_entry(),)

    play(setup)


def test_an_entry_is_written_once_however_often_it_is_entered():
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        for _ in range(3):
            await spend_log.enter(an_entry())
        await SpendLog(cluster, HOME).enter(an_entry())  # the next leader, which knows of nothing

        assert cluster.writes == 1

    play(setup)


@pytest.mark.parametrize("first", [True, False], ids=["a new page", "a page with lines"])
@pytest.mark.parametrize("happened", [True, False], ids=["that happened", "that did not"])
def test_a_write_without_an_answer_loses_and_doubles_nothing(first, happened):
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        known = () if first else (an_entry(attempt=7),)
        for entry in known:
            await spend_log.enter(entry)
        setattr(cluster, "after" if happened else "before", WriteUnknown("no answer"))
        with pytest.raises(WriteUnknown):
            await spend_log.enter(an_entry())

        await spend_log.enter(an_entry())

        assert set(entries(await cluster.pages())) == {an_entry(), *known}

    play(setup)


def test_a_conflict_is_the_callers_to_take_again():
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        await spend_log.enter(an_entry())
        cluster.before = Conflict("another client was faster")

        with pytest.raises(Conflict):
            await spend_log.enter(an_entry(attempt=2))
        await spend_log.enter(an_entry(attempt=2))

        assert len(entries(await cluster.pages())) == 2

    play(setup)


def test_fifty_machines_that_end_at_once_do_not_refuse_each_other():
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        ends = [an_entry(attempt=number, ended=NOW + timedelta(hours=number)) for number in range(1, 51)]
        await asyncio.gather(*(spend_log.enter(entry) for entry in ends))

        assert entries(await cluster.pages()) == tuple(ends)
        assert cluster.writes == 50

    play(setup)


def test_what_others_wrote_into_a_page_stays():
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        await cluster.put(PAGE, {"note": "audited by finance", f"{UID}-9": "{spoilt"})
        await spend_log.enter(an_entry())

        (page,) = await cluster.pages()
        assert page["data"] == {
            "note": "audited by finance",
            f"{UID}-9": "{spoilt",
            an_entry().key: line_of(an_entry()),
        }
        assert page["metadata"]["labels"] == {SPEND_LABEL: "2026-11"}  # or it would not be found again

    play(setup)


def test_a_line_that_a_user_corrected_stands_and_one_that_was_spoilt_is_written_again():
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        corrected = an_entry(microusd=1)
        await cluster.put(PAGE, {corrected.key: line_of(corrected), an_entry(attempt=2).key: "lunch"})
        await spend_log.enter(an_entry())
        await spend_log.enter(an_entry(attempt=2))

        assert set(entries(await cluster.pages())) == {corrected, an_entry(attempt=2)}

    play(setup)


@pytest.mark.parametrize(
    ("data", "more"),
    [({"foreign": "x" * MOST_BYTES}, {}), ({}, {"immutable": True})],
    ids=["full", "immutable"],
)
def test_a_page_that_takes_no_more_is_followed_by_the_next(data, more):
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        await cluster.put(PAGE, data, **more)
        await spend_log.enter(an_entry())
        await spend_log.enter(an_entry(attempt=2))

        assert set(entries([await cluster.read(CONFIG_MAP, SECOND)])) == {an_entry(), an_entry(attempt=2)}

    play(setup)


def test_a_page_that_is_larger_than_it_looks_is_followed_by_the_next():
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        await cluster.put(PAGE, {})
        cluster.before = Refused("too long: may not be more than 1048576 bytes")
        await spend_log.enter(an_entry())

        assert entries([await cluster.read(CONFIG_MAP, SECOND)]) == (an_entry(),)

    play(setup)


def test_an_entry_that_finds_no_room_gets_a_page_of_its_own():
    """Every possible page is immutable: the request can be deleted all the same."""

    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        for number in range(1, MOST_PAGES + 1):
            await cluster.put(ObjectKey(HOME, spend.page_name("2026-11", number)), {}, immutable=True)
        await spend_log.enter(an_entry())
        await spend_log.enter(an_entry())

        page = await cluster.read(CONFIG_MAP, ObjectKey(HOME, spend.own_page_name(an_entry())))
        assert entries([page]) == (an_entry(),)
        assert page["metadata"]["labels"][SPEND_LABEL] == "2026-11"
        assert cluster.writes == 1

    play(setup)


def test_each_month_has_its_own_page():
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        december: SpendEntry = an_entry(attempt=2, ended=NOW + timedelta(days=30))
        for entry in (an_entry(), december, an_entry(attempt=3)):
            await spend_log.enter(entry)

        assert len(entries(await cluster.pages())) == 2
        assert entries([await cluster.read(CONFIG_MAP, ObjectKey(HOME, "tgp-spend-2026-12"))]) == (december,)

    play(setup)


def test_what_happened_lately_is_read_from_this_months_pages_and_the_last():
    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        assert await spend_log.recent(NOW) == ()
        told = [an_entry(attempt=number, ended=NOW - timedelta(days=30 * back)) for number, back in ((1, 3), (2, 1))]
        told.append(an_entry(attempt=3, spot=True, lost=True))
        for each in told:
            await spend_log.enter(msgspec.structs.replace(each, began=min(each.began, each.ended)))

        assert [each.attempt for each in await spend_log.recent(NOW)] == [2, 3]
        assert (await spend_log.recent(NOW))[-1].lost

    play(setup)


def machine_ends(*nodes: Node) -> MachineEnds:
    store: Store[Node] = Store(NODE, {NODES_BY_MACHINE: by_machine})
    for node in nodes:
        store.put(node)
    return MachineEnds(store)


def told(ends: MachineEnds) -> list[datetime]:
    return [end.at for end in ends.store.values()]


@pytest.mark.parametrize("minutes", [-5, 5])
def test_the_end_that_is_told_is_the_one_on_record_and_a_new_leader_reads_the_same(minutes):
    """Another leader's line, or one that a user corrected."""
    line = an_entry(ended=NOW + timedelta(hours=1, minutes=minutes))

    async def setup(cluster: Breaking, _spend_log: SpendLog) -> None:
        await cluster.put(PAGE, {line.key: line_of(line)})
        entering, reading = machine_ends(), machine_ends()
        await SpendLog(cluster, HOME, entering).enter(an_entry())
        await SpendLog(cluster, HOME, reading).recent(NOW)
        assert told(entering) == told(reading) == [line.ended]

    play(setup)


def test_of_two_lines_in_two_months_the_earlier_is_told_however_they_are_read():
    december = an_entry(ended=NOW + timedelta(days=16))

    async def setup(cluster: Breaking, spend_log: SpendLog) -> None:
        ends = machine_ends()
        await SpendLog(cluster, HOME, ends).enter(an_entry())
        await SpendLog(cluster, HOME, ends).enter(december)  # a reconcile that is repeated after the end of the month
        reading = machine_ends()
        await SpendLog(cluster, HOME, reading).recent(december.ended)
        assert told(ends) == told(reading) == [an_entry().ended]

    play(setup)


def test_ends_of_older_months_are_dropped_unless_a_node_names_the_machine():
    kept = provider_id_of("vast", token_for("0" * CLUSTER_DIGITS, UID, 2))

    async def setup(cluster: Breaking, _spend_log: SpendLog) -> None:
        ends = machine_ends(Node(key=ObjectKey("", "node-1"), uid="n", resource_version=1, provider_id=kept))
        spend_log = SpendLog(cluster, HOME, ends)
        for attempt in (1, 2):
            await spend_log.enter(an_entry(attempt=attempt))
        await spend_log.enter(an_entry(attempt=3, ended=NOW + timedelta(days=30)))
        assert len(told(ends)) == 3, "last month's are read at a start, too"
        await spend_log.recent(NOW + timedelta(days=60))
        assert [end.key.name[-2:] for end in ends.store.values()] == ["-2", "-3"]

    play(setup)


def test_the_event_loop_goes_on_while_many_ends_are_told():
    async def setup(cluster: Breaking, _spend_log: SpendLog) -> None:
        for page, first in ((PAGE, 1), (SECOND, 301)):
            lines = [an_entry(attempt=number) for number in range(first, first + 300)]
            await cluster.put(page, {each.key: line_of(each) for each in lines})
        ends, at_once = machine_ends(), [0]

        def put(*_: object) -> None:
            if not at_once[-1]:
                asyncio.get_running_loop().call_soon(at_once.append, 0)  # when the event loop goes on
            at_once[-1] += 1

        ends.store.subscribe(put)
        await SpendLog(cluster, HOME, ends).recent(NOW)
        assert sum(at_once) == 600
        assert max(at_once) <= 2 * TOLD_AT_ONCE, "twice: callbacks of one turn come in any order"

    play(setup)
