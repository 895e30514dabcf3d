"""Swarm: each seed draws its own faults, its own providers' moods and its own users; nothing is ever paid twice.

`TGP_SEEDS=500 pytest tests/sim/lifecycle/test_swarm.py` runs more; a failure names its seed, and
`TGP_SEEDS=@1234` runs that one alone.
"""

import os

import pytest

from tests.amounts import amount
from tests.sim.lifecycle.reference import Crowd, FaultRates, run_workload
from tgp.sim.clouds.cloud_faults import CloudFault
from tgp.sim.entropy import stream
from tgp.sim.faults import swarm
from tgp.sim.node_bootstrap import NodeFault

FEW = amount(1, 60)
NEEDS_A_PERSON = frozenset({CloudFault.KEY_REVOKED, CloudFault.OTHER_ACCOUNT})  # tried one by one, in the histories
PRESENT = 0.4  # the chance that a mix has some of a given fault
CLOUD_FAULT_RATE, AILMENT_RATE = (0.005, 0.06), (0.02, 0.2)
MINUTES = 30
OWNED = (0, 2)  # machines you own: one of two GPUs and one of one


def seeds() -> list[int]:
    said = os.environ.get("TGP_SEEDS", "")
    return [int(said[1:])] if said.startswith("@") else list(range(1, 1 + int(said or FEW)))


def moods(seed: int) -> FaultRates:
    """What this seed's providers and machines are like."""
    luck = stream(seed, "swarm/providers")
    kinds = [cloud_fault for cloud_fault in CloudFault if cloud_fault not in NEEDS_A_PERSON]
    return FaultRates(
        {cloud_fault: luck.uniform(*CLOUD_FAULT_RATE) for cloud_fault in kinds if luck.random() < PRESENT},
        {node_fault: luck.uniform(*AILMENT_RATE) for node_fault in NodeFault if luck.random() < PRESENT},
    )


@pytest.mark.parametrize("seed", seeds())
def test_whatever_goes_wrong_money_is_kept_and_time_without_faults_repairs_the_rest(seed):
    pools = seed % 2 == 1
    crowd = Crowd(seed, minutes=MINUTES, pools=pools, owned=OWNED if pools else ())
    providers = ("simulated", "webhook") if pools else ()
    outcome = run_workload(seed, swarm(seed), workload=crowd, providers=providers, rates=moods(seed), restarts=True)

    assert outcome.duplicates == 0
    print(
        f"seed {seed}: {outcome.orders} orders, {outcome.machines} machines, {outcome.hand_overs} hand-overs, "
        f"the oldest orphan {outcome.oldest_orphan:.0f} s"
    )
