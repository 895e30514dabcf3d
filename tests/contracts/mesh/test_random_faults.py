"""By seed: machines come and go while the control server errs. Nothing of ours is left in the end."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import TypeVar

import pytest

from tests.amounts import amount
from tests.contracts.mesh.stage import KINDS, TAG, Kind, Stage, key_of, play
from tgp.core.model.mesh import DeviceRef
from tgp.ports.mesh import MeshBusy
from tgp.sim.mesh.mesh_faults import MeshFault
from tgp.sim.mesh.tailnet import JoinRefused

T = TypeVar("T")
SEEDS = amount(3, 50, "TGP_SEEDS")  # worlds with random faults per adapter
MACHINES = 12
CHANCE = 0.06  # of each fault, per call that it can befall
TRIES = 200


async def persist(stage: Stage, ask: Callable[[], Awaitable[T]]) -> T:
    """As a controller does: again, after a while, until it is done. Nothing but patience is ever asked for."""
    for _ in range(TRIES):
        try:
            return await ask()
        except MeshBusy as error:
            told = str(error)
        assert stage.leaks(told) == []
        await asyncio.sleep(30)
    raise AssertionError("it never ends")


async def one_machine(stage: Stage, number: int, luck: Random) -> None:
    name = f"train-{number}"
    await asyncio.sleep(luck.uniform(0, 600))
    trace = DeviceRef(name, stage.clock.now())
    made = await persist(stage, lambda: stage.mesh.enroll(stage.join_request(name)))
    trace = replace(trace, key_id=made.key_id)
    if luck.random() < 0.2:
        trace = replace(trace, key_id="")  # the operator died before it was written down
    if luck.random() < 0.8:  # the others never boot
        await asyncio.sleep(luck.uniform(1, 300))
        try:
            device = stage.tailnet.join(key_of(made), name)
        except JoinRefused:  # enrolled so late that its key had ended
            device = None
        if device is not None:
            found = await persist(stage, lambda: stage.mesh.find(trace))
            assert found is None or found.id == device.id
            if found is not None and luck.random() < 0.7:
                trace = replace(trace, device_id=device.id)
            await asyncio.sleep(luck.uniform(0, 3600))
            (stage.tailnet.leave if luck.random() < 0.3 else stage.tailnet.go_offline)(device.id)
    await persist(stage, lambda: stage.mesh.remove(trace))
    assert [seat.hostname for seat in stage.tailnet.devices() if seat.hostname == name and seat.tags] == []
    assert await persist(stage, lambda: stage.mesh.find(trace)) is None


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_whatever_fails_machines_leave_nothing_behind_and_take_nothing_along(kind: Kind, seed: int) -> None:
    async def script(stage: Stage) -> None:
        others = {stage.tailnet.add(f"train-{number}").id for number in range(4)}  # older, of the same names
        others |= {stage.tailnet.add("office", (TAG,)).id}
        await asyncio.sleep(60)
        stage.server.faults.chances = dict.fromkeys(set(MeshFault) - {MeshFault.HUGE}, CHANCE)
        async with asyncio.TaskGroup() as group:
            for number in range(MACHINES):
                group.create_task(one_machine(stage, number, Random(f"{seed}/{number}")))

        assert set(stage.tailnet.seats) == others
        assert len(stage.server.faults.seen) >= 5

    play(kind, script, seed)
