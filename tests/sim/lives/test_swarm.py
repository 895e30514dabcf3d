"""Swarm: each seed draws its own weather, its own providers' moods and its own people; nothing is ever paid twice.

`TGP_SEEDS=500 pytest tests/sim/lives/test_swarm.py` runs more; a failure names its seed, and
`TGP_SEEDS=@1234` runs that one alone.
"""

import os

import pytest

from tests.sim.lives.reference import Crowd, Weather, run_life
from tgp.sim.clouds.mishaps import Mishap
from tgp.sim.entropy import stream
from tgp.sim.estate import Ailment
from tgp.sim.faults import swarm

FEW = 6
NEEDS_A_PERSON = frozenset({Mishap.KEY_REVOKED, Mishap.OTHER_ACCOUNT})  # tried one by one, in the histories
PRESENT = 0.4  # the chance that a mix has some of a given mishap
MISHAP_RATE, AILMENT_RATE = (0.005, 0.06), (0.02, 0.2)
MINUTES = 30


def seeds() -> list[int]:
    said = os.environ.get("TGP_SEEDS", "")
    return [int(said[1:])] if said.startswith("@") else list(range(1, 1 + int(said or FEW)))


def moods(seed: int) -> Weather:
    """What this seed's providers and machines are like."""
    luck = stream(seed, "swarm/providers")
    kinds = [mishap for mishap in Mishap if mishap not in NEEDS_A_PERSON]
    return Weather(
        {mishap: luck.uniform(*MISHAP_RATE) for mishap in kinds if luck.random() < PRESENT},
        {ailment: luck.uniform(*AILMENT_RATE) for ailment in Ailment if luck.random() < PRESENT},
    )


@pytest.mark.parametrize("seed", seeds())
def test_whatever_goes_wrong_money_is_kept_and_fair_weather_mends_the_rest(seed):
    crowd = Crowd(seed, minutes=MINUTES)
    outcome = run_life(seed, swarm(seed), story=crowd, weather=moods(seed), restarts=True)

    assert outcome.duplicates == 0
    print(
        f"seed {seed}: {outcome.orders} orders, {outcome.machines} machines, {outcome.hand_overs} hand-overs, "
        f"the oldest orphan {outcome.oldest_orphan:.0f} s"
    )
