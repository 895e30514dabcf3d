"""What a Lease says to others must never be shorter than what its holder believes, and leaving is made sure of."""

import asyncio
from typing import Any

import pytest

from tests.contracts.kube_client.test_election import LEADER, Ledger, Lossy, an_elector, run_one
from tgp.adapters.kube.elector_rules import LeaseRecord, LeaseTimes, spec_of
from tgp.api.resource import LEASE
from tgp.sim.process import Host
from tgp.sim.world import World


@pytest.mark.parametrize(("duration", "written"), [(15.0, 15), (15.9, 16), (15.1, 16), (0.5, 1)])
def test_a_part_of_a_second_is_written_as_a_whole_one(duration: float, written: int):
    """A holder whose own term is 15.5 s of 15.9 must not tell candidates that 15 are enough."""
    times = LeaseTimes(duration, duration * 0.97, duration / 10)
    record = LeaseRecord("u", "1", "me", times.duration, "", "", 0)

    assert spec_of(record)["leaseDurationSeconds"] == written
    assert spec_of(record)["leaseDurationSeconds"] >= times.renew_within


def test_a_lease_is_released_although_the_last_answer_was_lost():
    """The stored record is newer than the one we know: it is read first, or the release would be refused."""

    async def scenario(_world: World, ledger: Ledger, host: Host) -> None:
        lossy: list[Lossy] = []

        def wrap(http: Any) -> Lossy:
            lossy.append(Lossy(http))
            return lossy[0]

        elector = an_elector(ledger, host, wrap)
        standing = asyncio.ensure_future(elector.run())
        await elector.won()
        lossy[0].losing = True
        await asyncio.sleep(2.5)
        assert elector.last_error, "a renewal went unanswered"
        lossy[0].losing = False
        await elector.release()
        await standing

        assert (await ledger.visitor().read(LEASE, LEADER))["spec"]["holderIdentity"] == ""

    run_one(scenario)


def test_a_candidate_that_never_wrote_leaves_without_a_word():
    async def scenario(_world: World, ledger: Ledger, host: Host) -> None:
        asked: list[str] = []

        class Heard(Lossy):
            async def send(self, call: Any) -> Any:
                asked.append(call.method)
                return await self._inner.send(call)

        elector = an_elector(ledger, host, Heard)
        await elector.release()

        assert asked == []

    run_one(scenario)
