"""The harness is worth something only if it catches what is broken: here it must."""

import pytest

from tests.sim.toys import a_market, careful_buyer, naive_buyer
from tgp.sim.faults import ALL, swarm
from tgp.sim.plans import Act, every_plan

SWARM_SEEDS = range(24)


def _effects(buyer):
    world, _ = a_market("plan", buyer)
    with world:
        world.run(minutes=10)
        return list(world.effects)


def _caught(buyer):
    """The plans under which the buyer pays twice, and all that were tried."""
    caught, tried = [], []
    for plan in every_plan(_effects(buyer)):
        tried.append(plan)
        world, _ = a_market("plan", buyer, plan=plan)
        with world:
            try:
                world.run(minutes=10)
            except AssertionError as error:
                assert "paid twice" in str(error)  # noqa: PT017 - whether it raises is what is counted
                caught.append(plan)
    return caught, tried


def test_every_plan_meets_its_side_effect():
    """One plan per act and side effect, and each is carried out exactly there."""
    effects = _effects(careful_buyer)
    assert [(effect.endpoint, effect.method) for effect in effects] == [
        ("kubernetes", "PATCH"),
        ("cloud", "POST"),
        ("kubernetes", "PATCH"),
    ]
    for plan in every_plan(effects):
        world, _ = a_market("plan", careful_buyer, plan=plan)
        with world:
            world.run(minutes=10)

            assert len(world.trace.by_index("aimed", plan.act)) == 1


def test_a_buyer_without_a_protocol_is_caught_at_the_moments_that_matter():
    caught, tried = _caught(naive_buyer)

    moments = {(1, Act.CRASH_AFTER), (1, Act.LOST_ANSWER), (2, Act.CRASH_BEFORE)}
    assert moments <= {(plan.number, plan.act) for plan in caught}
    assert len(tried) == 2 * len(Act)


def test_a_buyer_with_a_protocol_passes_every_plan():
    caught, tried = _caught(careful_buyer)

    print(f"covered {len(tried)} of {3 * len(Act)}")
    assert caught == []
    assert len(tried) == 3 * len(Act)


def _faults_that_catch(buyer):
    caught = []
    for seed in SWARM_SEEDS:
        world, cloud = a_market(seed, buyer, claims=10, faults=swarm(seed))
        with world:
            try:
                world.run(minutes=20)
                world.calm()
                world.run(minutes=10)
            except AssertionError as error:
                assert "paid twice" in str(error)  # noqa: PT017 - whether it raises is what is counted
                caught.append(seed)
                continue
            assert len(cloud.machines) == 10, "no faults, and still no machine"
    return caught


def test_faults_reveal_the_buyer_without_a_protocol_and_spare_the_other():
    assert len(_faults_that_catch(naive_buyer)) >= 8
    assert _faults_that_catch(careful_buyer) == []


@pytest.mark.parametrize("seed", range(2))
def test_the_careful_buyer_is_not_careful_by_chance(seed):
    """All faults at once, half a day long: crashes by the dozen, one machine."""
    world, cloud = a_market(seed, careful_buyer, faults=ALL)
    with world:
        world.run(hours=12)
        world.calm()
        world.run(minutes=10)

        assert world.processes["buyer"].starts > 12
        assert len(cloud.machines) == 1
