"""A table in one ConfigMap: what is written at the same time is written together, and nothing is said before it is."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.core.joining.csr_world import CsrEnv
from tgp.adapters.kube.client import KubeCluster
from tgp.api.resource import CONFIG_MAP
from tgp.controllers.config_table import ConfigTable
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import WriteUnknown
from tgp.ports.http import Call, Reply
from tgp.sim.entropy import SeededEntropy
from tgp.sim.loop import VirtualLoop

KEY = ObjectKey("tgp-system", "a-table")
MANY = 20


class Env(CsrEnv):
    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__(loop)
        self.table = self.a_table()

    def a_table(self) -> ConfigTable[str]:
        cluster = KubeCluster(self.line, SeededEntropy(3, "client"))
        return ConfigTable(cluster, KEY, line_of=str, read_line=str)

    def lines(self) -> dict[str, str]:
        found = self.server.local_api.get(CONFIG_MAP, *KEY)
        return dict(found["data"]) if found is not None else {}


def played(play: Callable[[Env], Awaitable[None]]) -> None:
    loop = VirtualLoop()
    try:
        loop.run_until_complete(play(Env(loop)))
    finally:
        loop.close()


def test_changes_that_come_while_one_is_written_are_written_together() -> None:
    async def play(env: Env) -> None:
        await asyncio.gather(*(env.table.write(f"entry-{number}", "x") for number in range(MANY)))
        assert len(env.lines()) == MANY
        assert len(env.line.changes) <= 2

    played(play)


def test_of_two_changes_of_one_entry_the_later_holds() -> None:
    async def play(env: Env) -> None:
        await env.table.write("a", "old")
        removed = await asyncio.gather(env.table.write("b", "x"), env.table.write("a", "new"), env.table.drop("a"))
        assert removed[2] is not None
        assert env.lines() == {"b": "x"}
        assert dict(await env.table.entries()) == {"b": "x"}

    played(play)


def test_each_caller_hears_that_a_write_failed_and_may_repeat_it() -> None:
    async def play(env: Env) -> None:
        env.line.breaks = lambda call: "after" if call.changes_things else ""
        writes = (env.table.write(f"entry-{number}", "x") for number in range(3))
        heard = await asyncio.gather(*writes, return_exceptions=True)
        assert [type(each) for each in heard] == [WriteUnknown] * 3
        env.line.breaks = lambda _call: ""
        await asyncio.gather(*(env.table.write(f"entry-{number}", "x") for number in range(3)))
        assert len(env.lines()) == 3

    played(play)


def test_what_a_cancelled_caller_left_is_written_by_the_next() -> None:
    async def play(env: Env) -> None:
        await env.table.entries()
        send = env.line.send

        async def in_a_second(call: Call) -> Reply:
            await asyncio.sleep(1)
            return await send(call)

        env.line.send = in_a_second  # type: ignore[method-assign]
        first, second, third = (asyncio.create_task(env.table.write(name, "x")) for name in "abc")
        await asyncio.sleep(1.5)
        second.cancel()
        await asyncio.gather(first, third)
        assert second.cancelled()
        assert env.lines() == dict.fromkeys("abc", "x")
        assert dict(await env.a_table().entries()) == dict(await env.table.entries())

    played(play)
