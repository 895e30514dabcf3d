"""Whatever a walk rented is terminated and shown to be gone: by itself, and by the watchman when it cannot."""

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
from tests.controlplane.simulators import Simulators
from tests.live.pretend import Pretence, in_virtual_time
from tgp.core.model.token import cluster_prefix, token_for
from tgp.ports.cloud import LaunchOrder
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import WantedMachine
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.clouds.registry import SIMULATORS
from tools.live.asked import NOT_WALKED
from tools.live.choice import cheapest
from tools.live.termination import NotShown, terminate
from tools.live.walk import WalkFailed

ROOT = Path(__file__).parents[2]
CLUSTER, OTHER = "c0ffee0123", "0ddba11000"
UID = "0123456789abcdef0123456789abcdef"
PREFIX = cluster_prefix(CLUSTER)


async def rent(pretence: Pretence, cluster: str = CLUSTER) -> None:
    offer = cheapest((await pretence.cloud.offers()).offers, 10 * pretence.cap_microusd)
    assert offer is not None
    await pretence.cloud.launch(LaunchOrder(offer, token_for(cluster, UID, 1), 2 * offer.hourly_microusd))


def test_everything_under_the_prefix_goes_and_nothing_else():
    async def on_it() -> None:
        pretence = Pretence()
        await rent(pretence)
        await rent(pretence, OTHER)
        began = pretence.clock.boottime()

        ended = await terminate(pretence.cloud, PREFIX, pretence.clock, pretence.said.append)

        assert len(ended) == 1
        assert [machine.name for machine in pretence.alive] == [token_for(OTHER, UID, 1)]
        assert pretence.clock.boottime() - began >= pretence.cloud.facts.listing_lag.total_seconds()

    in_virtual_time(on_it())


def test_a_list_that_fails_or_lags_proves_nothing():
    """A machine that shows up late is found, because one empty list is not believed."""

    async def on_it() -> None:
        pretence = Pretence()
        pretence.simulator.fleet.habits = replace(pretence.simulator.fleet.habits, list_lag=(40.0, 40.0))
        await rent(pretence)
        pretence.simulator.faults.aim(CloudFault.ERROR, CloudVerb.LIST, 3)
        pretence.simulator.faults.aim(CloudFault.ERROR, CloudVerb.TERMINATE, 2)

        await terminate(pretence.cloud, PREFIX, pretence.clock, pretence.said.append)

        assert pretence.alive == []

    in_virtual_time(on_it())


def test_what_cannot_be_shown_is_said_with_where_to_look():
    async def on_it() -> None:
        pretence = Pretence()
        await rent(pretence)
        pretence.simulator.faults.aim(CloudFault.DELETE_IGNORED, CloudVerb.TERMINATE, 1000)

        with pytest.raises(NotShown, match=f"console for machines named {PREFIX}"):
            await terminate(pretence.cloud, PREFIX, pretence.clock, pretence.said.append, timedelta(minutes=5))

    in_virtual_time(on_it())


def test_a_dry_run_rents_nothing_and_says_what_it_would():
    async def on_it() -> None:
        pretence = Pretence(yes=False)

        await pretence.walk()

        assert pretence.made == []
        assert pretence.watched == []
        assert any("USD an hour" in line for line in pretence.said)
        assert pretence.said[-1] == "nothing was rented: YES=1 does it"

    in_virtual_time(on_it())


def test_nothing_below_the_cap_is_no_walk():
    async def on_it() -> None:
        pretence = Pretence(cap_microusd=1)

        with pytest.raises(WalkFailed, match="none of"):
            await pretence.walk()

        assert pretence.made == []

    in_virtual_time(on_it())


@pytest.mark.parametrize("provider", [name for name in SIMULATORS if name not in NOT_WALKED])
def test_a_whole_walk_leaves_nothing_but_its_bill(provider):
    async def on_it() -> None:
        pretence = Pretence(provider)

        await pretence.walk()

        (machine,) = pretence.made
        assert not machine.alive
        assert pretence.watched == [machine.name[: len(PREFIX)]]
        assert any(line.startswith("the bill: ") for line in pretence.said)

    in_virtual_time(on_it())


@pytest.mark.parametrize(
    "cloud_fault", [CloudFault.STUCK, CloudFault.HANG_UP_AFTER, CloudFault.MADE_TWICE, CloudFault.OVERBILLED]
)
def test_whatever_the_provider_does_nothing_is_left_and_nothing_is_rented_in_its_stead(cloud_fault):
    async def on_it() -> None:
        pretence = Pretence()
        pretence.simulator.faults.aim(cloud_fault, CloudVerb.LAUNCH)

        try:
            await pretence.walk()
        except WalkFailed as error:
            pretence.said.append(str(error))

        assert pretence.alive == [], pretence.said
        assert len(pretence.made) == (2 if cloud_fault is CloudFault.MADE_TWICE else 1)

    in_virtual_time(on_it())


def test_ctrl_c_in_the_middle_gives_back_first():
    async def on_it() -> None:
        pretence = Pretence()
        walking = asyncio.create_task(pretence.walk())
        while not pretence.alive:
            assert not walking.done(), pretence.said
            await asyncio.sleep(1)

        walking.cancel()

        with pytest.raises(WalkFailed, match="terminated"):
            await walking
        assert pretence.alive == []

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
def simulators():
    with Simulators("watchman") as street:
        yield street


def a_walker(simulators: Simulators, within_s: float = 600.0) -> tuple[subprocess.Popen[str], int]:
    """A process that stands in for the walk, and the watchman behind it."""
    settings = json.dumps(written(settings_of("simulated", simulators.urls()["simulated"])))
    process = subprocess.Popen(
        [sys.executable, "-c", WALKER, PREFIX, str(within_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"SETTINGS": settings},
    )
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def left_behind(simulators: Simulators) -> SimulatedMachine:
    def rent(api):
        fleet = api.simulators["simulated"].fleet
        product = next(stand.product.id for stand in fleet.stands.values() if stand.stock)
        tenant = next(iter(fleet.accounts))
        return fleet.rent(tenant, WantedMachine(product, token_for(CLUSTER, UID, 1), tags=(("tgp-token", "x"),)))

    return simulators.look(rent)


def gone(simulators: Simulators, machine: SimulatedMachine) -> bool:
    simulators.machines()
    return not machine.alive


def test_when_the_walk_is_killed_the_watchman_gives_back_whatever_signals_say(simulators, eventually):
    machine = left_behind(simulators)
    walker, watchman = a_walker(simulators)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(watchman, number)

    walker.kill()
    walker.wait()

    eventually(lambda: gone(simulators, machine), 30)
    eventually(lambda: not Path(f"/proc/{watchman}").exists() or _is_zombie(watchman), 40)
    for pipe in (walker.stdin, walker.stdout, walker.stderr):
        pipe.close()


def test_when_the_walk_hangs_the_watchman_does_not_wait_for_ever(simulators, eventually):
    machine = left_behind(simulators)
    walker, watchman = a_walker(simulators, within_s=1.0)

    eventually(lambda: gone(simulators, machine), 30)

    os.kill(watchman, signal.SIGKILL)  # how it proves it was seen above
    walker.communicate("\n", timeout=180)


def test_a_watchman_who_is_sent_home_touches_nothing(simulators):
    machine = left_behind(simulators)
    walker, watchman = a_walker(simulators)

    walker.communicate("\n", timeout=180)

    assert walker.returncode == 0
    assert not Path(f"/proc/{watchman}").exists()
    time.sleep(0.2)
    assert not gone(simulators, machine)


def _is_zombie(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
