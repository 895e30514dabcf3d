import asyncio
from dataclasses import dataclass, field

from tgp.adapters.mesh.device_list import KEPT_SECONDS, DeviceList
from tgp.adapters.mesh.membership import Member
from tgp.core.model.mesh import Device

BEFORE, AFTER = (Member(Device("n1", "train")),), ()


@dataclass
class Hand:
    """A clock that is set by hand."""

    at: float = 0.0

    def now(self):
        raise AssertionError("a length is not measured with the wall clock")

    def boottime(self) -> float:
        return self.at


@dataclass
class Server:
    """Answers when it is told to."""

    waiting: list[asyncio.Future] = field(default_factory=list)

    async def fetch(self):
        asked = asyncio.get_running_loop().create_future()
        self.waiting.append(asked)
        return await asked


async def asked(server: Server, looking: asyncio.Task, answer: tuple[Member, ...]) -> tuple[Member, ...]:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    server.waiting.pop().set_result(answer)
    return await looking


async def test_a_list_is_kept_for_a_few_seconds():
    server, hand = Server(), Hand()
    roll = DeviceList(server.fetch, hand)
    assert await asked(server, asyncio.create_task(roll.lately()), BEFORE) == BEFORE
    hand.at = KEPT_SECONDS - 0.1
    assert await roll.lately() == BEFORE
    hand.at = KEPT_SECONDS

    assert await asked(server, asyncio.create_task(roll.lately()), AFTER) == AFTER


async def test_a_list_that_was_begun_before_a_change_is_not_kept_after_it():
    """Otherwise a device that was removed would be found for some seconds more."""
    server = Server()
    roll = DeviceList(server.fetch, Hand())
    slow = asyncio.create_task(roll.lately())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    roll.forget()
    assert await asked(server, slow, BEFORE) == BEFORE

    assert await asked(server, asyncio.create_task(roll.lately()), AFTER) == AFTER


async def test_a_failed_fetch_is_not_cached():
    server = Server()
    roll = DeviceList(server.fetch, Hand())
    looking = [asyncio.create_task(roll.lately()) for _ in range(3)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    server.waiting.pop().set_exception(OSError("no"))
    assert [type(each) for each in await asyncio.gather(*looking, return_exceptions=True)] == [OSError] * 3

    assert await asked(server, asyncio.create_task(roll.lately()), AFTER) == AFTER
    assert server.waiting == []
