"""Answers that went wrong on their way: whatever comes, it is one of the port's errors, and nothing is invented."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random

import pytest

from tests.amounts import amount
from tests.contracts.clouds.fuzz import WAYS
from tests.contracts.mesh.stage import KINDS, Kind, Stage, everything_said, play
from tgp.ports.mesh import MeshError

ROUNDS = amount(150, 5000, "TGP_FUZZ")  # spoiled answers per adapter


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_no_answer_breaks_the_adapter_or_makes_it_talk(kind: Kind) -> None:
    """Every spoiled answer ends in a value or in MeshError, without a secret in its words."""

    async def script(stage: Stage) -> None:
        luck = Random(f"{kind.name}/fuzz")
        device, trace = await stage.joined()
        known = replace(trace, device_id=device.id)
        await asyncio.sleep(60)
        for _ in range(ROUNDS):
            stage.tailnet.keys = {trace.key_id: stage.tailnet.keys[trace.key_id]}  # fewer to look for
            stage.server.end_tokens()
            stage.mesh = stage.mesh_with()
            stage.retell = lambda reply: luck.choice(WAYS)(luck, reply) if luck.random() < 0.6 else reply
            asks: tuple[Callable[[], Awaitable[object]], ...] = (
                lambda: stage.mesh.enroll(stage.join_request()),
                lambda: stage.mesh.find(known),
                lambda: stage.mesh.remove(stage.trace("absent")),
                stage.mesh.check,
            )
            for ask in asks:
                try:
                    told = repr(await ask())
                except MeshError as error:
                    told = everything_said(error)
                assert stage.leaks(told) == [], told
        assert device.id in stage.tailnet.seats, "what was removed was another machine's"

    play(kind, script)
