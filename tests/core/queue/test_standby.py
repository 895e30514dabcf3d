"""A replica that waits for the Lease, and one whose term just ended: no growing queue, no error, no missed retry."""

import asyncio
import logging
from datetime import timedelta

from tests.contracts.reflector.served import ServedPods, in_virtual_time
from tests.core.queue.test_runtime import Rig, running
from tgp.adapters.kube.runtime import LONGEST_RETRY_AFTER
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import ClusterBusy
from tgp.ports.leadership import NotLeading


def test_a_replica_that_never_leads_does_not_hoard_the_names_of_the_dead():
    """Pods come and go by the hundred thousand; a standby must not remember each until its term, which may never be."""

    async def scenario():
        served = ServedPods()
        kept = served.create("kept")
        rig = Rig(served)
        won = asyncio.Event()
        async with running(rig, won.wait()):
            await asyncio.sleep(1)
            for number in range(500):
                served.delete(served.create(f"short-{number}"))
                await asyncio.sleep(0.01)
            assert len(rig.runtime.loops[0].queue) <= 1
            won.set()
            await asyncio.sleep(1)

            assert rig.reconciler.names() == ["kept"]
            served.modify(kept, phase="Running")
            await asyncio.sleep(1)
            assert rig.reconciler.names() == ["kept", "kept"]

    in_virtual_time(scenario())


def test_a_reconcile_whose_term_is_over_is_deferred_quietly(caplog):
    """Nothing was sent and nothing is wrong: the process is about to end. An error line would cry wolf."""

    async def scenario():
        async def step(_key: ObjectKey):
            if len(rig.reconciler.calls) == 1:
                raise NotLeading("this replica does not lead")

        served = ServedPods()
        served.create("a")
        rig = Rig(served, step)
        async with running(rig):
            await asyncio.sleep(10)

            assert rig.metered.outcomes == ["requeue", "success"]
            assert rig.noted.facts == []

    in_virtual_time(scenario())
    assert [line for line in caplog.records if line.levelno >= logging.ERROR] == []


def test_a_wait_that_no_server_means_does_not_put_a_key_to_sleep_for_a_day():
    async def scenario():
        async def step(_key: ObjectKey):
            if len(rig.reconciler.calls) == 1:
                raise ClusterBusy("a proxy in a bad mood", timedelta(days=1))

        served = ServedPods()
        served.create("a")
        rig = Rig(served, step)
        async with running(rig):
            await asyncio.sleep(LONGEST_RETRY_AFTER.total_seconds() + 60)
            first, second = [at for at, _ in rig.reconciler.calls]

            assert second - first >= LONGEST_RETRY_AFTER.total_seconds()

    in_virtual_time(scenario())
