"""Answers that were bent on their way: a typed error or a sound value, never a crash and never a second order."""

from collections.abc import Awaitable
from random import Random
from typing import Any

import msgspec

from tests.amounts import amount
from tests.contracts.clouds.gcp.gcp_stage import played
from tests.contracts.clouds.stage import Stage
from tgp.core.model.cloud_errors import CloudError
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.gcp import GcpSimulator

ANSWERS = amount(150, 10000, "TGP_FUZZ")  # bent ones
FRESH_EVERY = 9  # questions
ODD: tuple[Any, ...] = (
    None, True, -1, 0, 10**30, 1.5, float("1e300"), "", "x" * 5000, "../../etc", "\ud7ff\u0000", [], {}, [[]],
    [None], {"": {}}, "NaN", "zones/x", {"code": "UNREACHABLE"}, "tgp-",
)  # fmt: skip


def bend(value: Any, luck: Random) -> Any:
    """The same value with one thing wrong somewhere."""
    if isinstance(value, dict) and value and luck.random() < 0.85:
        name = luck.choice(list(value))
        if luck.random() < 0.15:
            return {key: each for key, each in value.items() if key != name}
        return value | {name: bend(value[name], luck)}
    if isinstance(value, list) and value and luck.random() < 0.85:
        place = luck.randrange(len(value))
        return [*value[:place], bend(value[place], luck), *value[place + 1 :]]
    return luck.choice(ODD)


def bent(reply: Reply, luck: Random) -> Reply:
    content = msgspec.json.encode(bend(msgspec.json.decode(reply.content), luck))
    if luck.random() < 0.1:
        content = content[: luck.randrange(len(content) + 1)]
    return Reply(luck.choice((200, 200, 200, 200, 400, 403, 404, 409, 500)), content, reply.headers)


def test_bent_answers_never_crash_and_never_order_twice():
    async def script(stage: Stage, simulator: GcpSimulator) -> None:
        luck = Random("bent")
        order = await stage.order()
        made = await stage.launched(order.token)
        cloud = stage.cloud

        def asked(number: int) -> Awaitable[Any]:
            match number % 8:
                case 0:
                    return cloud.offers()
                case 1:
                    return cloud.status(made.id)
                case 2:
                    return cloud.find(made.token)
                case 3:
                    return cloud.owned(stage.prefix)
                case 4:
                    return cloud.check()
                case 5:
                    return cloud.identity()
                case 6:
                    return cloud.launch(order)
                case _:
                    return cloud.terminate("us-central1-a:absent")

        for verb in CloudVerb:
            stage.rewrite(verb, lambda reply: bent(reply, luck))
        refused = 0
        for number in range(ANSWERS):
            if number % FRESH_EVERY == 0:
                cloud = stage.cloud_of(stage.key)  # without a token: that answer is bent, too
            try:
                await asked(number)
            except CloudError:
                refused += 1
        assert refused > ANSWERS // 4, "the answers were hardly bent"
        assert len([machine for machine in simulator.fleet.machines.values() if machine.name == order.token]) == 1

    played(script)
