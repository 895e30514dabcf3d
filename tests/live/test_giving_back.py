"""Whatever a walk rented is given back and shown to be gone: by itself, and by the watchman when it cannot."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.controlplane.providers import settings_of, written
from tests.controlplane.village import Village
from tests.live.pretend import Pretence, in_virtual_time
from tgp.core.model.token import cluster_prefix, token_for
from tgp.ports.cloud import LaunchOrder
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import WantedMachine
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.clouds.registry import SIMULATORS
from tools.live.asked import NOT_WALKED
from tools.live.choice import cheapest
from tools.live.giving_back import NotShown, terminate
from tools.live.walk import WalkFailed

HOUSE = Path(__file__).parents[2]
CLUSTER, OTHER = "c0ffee0123", "0ddba11000"
UID = "0123456789abcdef0123456789abcdef"
PREFIX = cluster_prefix(CLUSTER)


async def rent(town: Pretence, cluster: str = CLUSTER) -> None:
    offer = cheapest((await town.cloud.offers()).offers, 10 * town.cap_microusd)
    assert offer is not None
    await town.cloud.launch(LaunchOrder(offer, token_for(cluster, UID, 1), 2 * offer.hourly_microusd))


def test_everything_under_the_prefix_goes_and_nothing_else():
    async def on_it() -> None:
        town = Pretence()
        await rent(town)
        await rent(town, OTHER)
        began = town.clock.boottime()

        ended = await terminate(town.cloud, PREFIX, town.clock, town.said.append)

        assert len(ended) == 1
        assert [machine.name for machine in town.alive] == [token_for(OTHER, UID, 1)]
        assert town.clock.boottime() - began >= town.cloud.facts.listing_lag.total_seconds()

    in_virtual_time(on_it())


def test_a_list_that_fails_or_lags_proves_nothing():
    """A machine that shows up late is found, because one empty list is not believed."""

    async def on_it() -> None:
        town = Pretence()
        town.simulator.fleet.habits = replace(town.simulator.fleet.habits, list_lag=(40.0, 40.0))
        await rent(town)
        town.simulator.faults.aim(CloudFault.ERROR, CloudVerb.LIST, 3)
        town.simulator.faults.aim(CloudFault.ERROR, CloudVerb.TERMINATE, 2)

        await terminate(town.cloud, PREFIX, town.clock, town.said.append)

        assert town.alive == []

    in_virtual_time(on_it())


def test_what_cannot_be_shown_is_said_with_where_to_look():
    async def on_it() -> None:
        town = Pretence()
        await rent(town)
        town.simulator.faults.aim(CloudFault.DELETE_IGNORED, CloudVerb.TERMINATE, 1000)

        with pytest.raises(NotShown, match=f"console for machines named {PREFIX}"):
            await terminate(town.cloud, PREFIX, town.clock, town.said.append, timedelta(minutes=5))

    in_virtual_time(on_it())


def test_a_dry_run_rents_nothing_and_says_what_it_would():
    async def on_it() -> None:
        town = Pretence(yes=False)

        await town.walk()

        assert town.made == []
        assert town.watched == []
        assert any("USD an hour" in line for line in town.said)
        assert town.said[-1] == "nothing was rented: YES=1 does it"

    in_virtual_time(on_it())


def test_nothing_below_the_cap_is_no_walk():
    async def on_it() -> None:
        town = Pretence(cap_microusd=1)

        with pytest.raises(WalkFailed, match="none of"):
            await town.walk()

        assert town.made == []

    in_virtual_time(on_it())


@pytest.mark.parametrize("provider", [name for name in SIMULATORS if name not in NOT_WALKED])
def test_a_whole_walk_leaves_nothing_but_its_bill(provider):
    async def on_it() -> None:
        town = Pretence(provider)

        await town.walk()

        (machine,) = town.made
        assert not machine.alive
        assert town.watched == [machine.name[: len(PREFIX)]]
        assert any(line.startswith("the bill: ") for line in town.said)

    in_virtual_time(on_it())


@pytest.mark.parametrize(
    "cloud_fault", [CloudFault.STUCK, CloudFault.HANG_UP_AFTER, CloudFault.MADE_TWICE, CloudFault.OVERBILLED]
)
def test_whatever_the_provider_does_nothing_is_left_and_nothing_is_rented_in_its_stead(cloud_fault):
    async def on_it() -> None:
        town = Pretence()
        town.simulator.faults.aim(cloud_fault, CloudVerb.LAUNCH)

        try:
            await town.walk()
        except WalkFailed as error:
            town.said.append(str(error))

        assert town.alive == [], town.said
        assert len(town.made) == (2 if cloud_fault is CloudFault.MADE_TWICE else 1)

    in_virtual_time(on_it())


def test_ctrl_c_in_the_middle_gives_back_first():
    async def on_it() -> None:
        town = Pretence()
        walking = asyncio.create_task(town.walk())
        while not town.alive:
            assert not walking.done(), town.said
            await asyncio.sleep(1)

        walking.cancel()

        with pytest.raises(WalkFailed, match="given back"):
            await walking
        assert town.alive == []

    in_virtual_time(on_it())


# -- the watchman: a real process on real sockets ----------------------------------------------------------------------

WALKER = """
import sys, time
from tools.live.watchman import watchman
with watchman("simulated", sys.argv[1], float(sys.argv[2])) as pid:
    print(pid, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(scope="module")
def village():
    with Village("watchman") as street:
        yield street


def a_walker(village: Village, within_s: float = 600.0) -> tuple[subprocess.Popen[str], int]:
    """A process that stands in for the walk, and the watchman behind it."""
    settings = json.dumps(written(settings_of("simulated", village.urls()["simulated"])))
    process = subprocess.Popen(
        [sys.executable, "-c", WALKER, PREFIX, str(within_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=HOUSE,
        env=os.environ | {"SETTINGS": settings},
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def left_behind(village: Village) -> SimulatedMachine:
    def rent(desk):
        fleet = desk.simulators["simulated"].fleet
        product = next(stand.product.id for stand in fleet.stands.values() if stand.stock)
        tenant = next(iter(fleet.accounts))
        return fleet.rent(tenant, WantedMachine(product, token_for(CLUSTER, UID, 1), tags=(("tgp-token", "x"),)))

    return village.look(rent)


def gone(village: Village, machine: SimulatedMachine) -> bool:
    village.machines()
    return not machine.alive


def test_when_the_walk_is_killed_the_watchman_gives_back_whatever_signals_say(village, eventually):
    machine = left_behind(village)
    walker, watchman = a_walker(village)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(watchman, number)

    walker.kill()
    walker.wait()

    eventually(lambda: gone(village, machine), 30)
    eventually(lambda: not Path(f"/proc/{watchman}").exists() or _is_zombie(watchman), 40)
    for pipe in (walker.stdin, walker.stdout, walker.stderr):
        pipe.close()


def test_when_the_walk_hangs_the_watchman_does_not_wait_for_ever(village, eventually):
    machine = left_behind(village)
    walker, watchman = a_walker(village, within_s=1.0)

    eventually(lambda: gone(village, machine), 30)

    os.kill(watchman, signal.SIGKILL)  # how it proves it was seen above
    walker.communicate("\n", timeout=180)


def test_a_watchman_who_is_sent_home_touches_nothing(village):
    machine = left_behind(village)
    walker, watchman = a_walker(village)

    walker.communicate("\n", timeout=180)

    assert walker.returncode == 0
    assert not Path(f"/proc/{watchman}").exists()
    time.sleep(0.2)
    assert not gone(village, machine)


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
