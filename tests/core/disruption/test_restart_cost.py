"""What moving a pod costs: more with age, less with a checkpoint, and weighed by priority."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.disruption.exchange_worlds import a_serving_pod, standing
from tests.core.pools.builders import GIB, GPU, NOW, ago, on_node, written
from tests.core.pools.planner.worlds import NOW as PLAN_NOW
from tgp.core.disruption.causes import Standing
from tgp.core.disruption.restart_cost import (
    START_UP,
    Restarts,
    lost_work,
    restart_cost,
    share_of,
    unreadable,
    weight_of,
)
from tgp.core.model.pod import OwnerRef
from tgp.core.model.resources import Resources

ROOM = Resources(8000, 32 * GIB, ((GPU, 4), ("pods", 110)))
JOB = (OwnerRef("Job", "train", "uid-train", "batch/v1", controller=True),)
REPLICAS = (OwnerRef("ReplicaSet", "serve", "uid-serve", "apps/v1", controller=True),)
RUNS = tuple(
    (OwnerRef(kind, "train", "uid-train", version, controller=True),)
    for kind, version in (
        ("PyTorchJob", "kubeflow.org/v1"),
        ("MPIJob", "kubeflow.org/v1"),
        ("Workflow", "argoproj.io/v1alpha1"),
        ("RayCluster", "ray.io/v1"),
    )
)
hours = st.floats(0, 1000)


def a_job(age: float = 5.0, **annotations):
    said = {f"tgp.io/{name.replace('_', '-')}": text for name, text in annotations.items()}
    return on_node(owners=JOB, started_at=ago(hours=age), annotations=said)


@pytest.mark.parametrize(
    ("pod", "lost"),
    [
        (a_job(5.0), timedelta(hours=5)),
        (a_job(5.0, checkpoint_every="30m"), timedelta(minutes=15)),
        (a_job(0.1, checkpoint_every="1h"), timedelta(minutes=6)),
        (a_job(5.0, checkpointed_at=written(ago(minutes=7))), timedelta(minutes=7)),
        (a_job(5.0, checkpointed_at=written(ago(hours=30))), timedelta(hours=5)),
        (a_job(5.0, checkpointed_at=written(ago(minutes=-7))), timedelta(0)),
        (a_job(5.0, checkpointed_at=written(ago(hours=4)), checkpoint_every="1h"), timedelta(minutes=30)),
        (a_job(5.0, checkpoint_every="often"), timedelta(hours=5)),
        (a_job(5.0, checkpointed_at="noon"), timedelta(hours=5)),
        (on_node(owners=REPLICAS, started_at=ago(hours=5)), timedelta(0)),
        (on_node(owners=JOB, created_at=None), timedelta(0)),
        *((on_node(owners=each, started_at=ago(hours=5), restart_policy="Never"), timedelta(hours=5)) for each in RUNS),
        (on_node(owners=RUNS[0], started_at=ago(hours=5), restart_policy="OnFailure"), timedelta(hours=5)),
        (on_node(owners=RUNS[0], started_at=ago(hours=5)), timedelta(0)),
    ],
)
def test_the_work_that_a_restart_loses(pod, lost):
    assert lost_work(pod, NOW) == lost


def test_a_restart_costs_the_pods_share_of_its_machine():
    """Five hours and the start-up, on a quarter of a machine of $4 an hour."""
    assert share_of(a_job(), ROOM) == 0.25
    assert restart_cost(a_job(5.0), ROOM, 4_000_000, NOW) == round(1_000_000 * (5 + START_UP / timedelta(hours=1)))
    assert restart_cost(on_node(gpus=0), Resources(), 4_000_000, NOW) == 0


@pytest.mark.parametrize(
    ("priority", "deletion_cost", "weight"),
    [(0, None, 1.0), (1 << 25, None, 2.0), (0, str(1 << 27), 2.0), (0, str(-(1 << 31)), 0.1), (10**9, None, 10.0),
     (0, "many", 1.0), (0, "9" * 12, 1.0), (0, "٣", 1.0)],
)  # fmt: skip
def test_priority_and_deletion_cost_weigh(priority, deletion_cost, weight):
    said = {} if deletion_cost is None else {"controller.kubernetes.io/pod-deletion-cost": deletion_cost}

    assert weight_of(on_node(priority=priority, annotations=said)) == weight


def test_what_cannot_be_read_is_told():
    (told,) = unreadable({"tgp.io/checkpoint-every": "often"})
    assert told == "Annotation tgp.io/checkpoint-every is ignored: 'often' is no duration, such as 30m"
    (told,) = unreadable({"tgp.io/checkpointed-at": "noon"})
    assert told == "Annotation tgp.io/checkpointed-at is ignored: 'noon' is no time, such as 2026-01-31T12:00:00Z"
    assert [*unreadable({"tgp.io/checkpoint-every": "1h", "tgp.io/checkpointed-at": written(NOW)})] == []


@given(hours, hours)
def test_the_older_a_job_the_more_a_restart_costs(one, other):
    young, old = sorted((one, other))

    assert restart_cost(a_job(young), ROOM, 1e6, NOW) <= restart_cost(a_job(old), ROOM, 1e6, NOW)


@given(hours, hours, hours)
def test_a_later_checkpoint_never_makes_a_restart_more_expensive(age, one, other):
    late, early = sorted((one, other))
    costs = [restart_cost(a_job(age, checkpointed_at=written(ago(hours=at))), ROOM, 1e6, NOW) for at in (late, early)]

    assert costs[0] <= costs[1] <= restart_cost(a_job(age), ROOM, 1e6, NOW) + 1
    assert costs[0] >= restart_cost(a_job(0), ROOM, 1e6, NOW)


@given(hours, st.integers(0, 10_000), st.integers(0, 10_000))
def test_a_shorter_interval_never_makes_a_restart_more_expensive(age, one, other):
    short, long = sorted((one, other))
    costs = [restart_cost(a_job(age, checkpoint_every=f"{each}m"), ROOM, 1e6, NOW) for each in (short, long)]

    assert costs[0] <= costs[1] <= restart_cost(a_job(age), ROOM, 1e6, NOW)


# -- gangs -------------------------------------------------------------------------------------------------------------


def a_rank(number: int, *, gang: str = "train") -> Standing:
    """A machine of $4 an hour, a quarter of which a pod of the gang has used for five hours."""
    pod = a_serving_pod(f"rank-{number}", owners=JOB, hours=5.0, annotations={"tgp.io/gang": gang} if gang else {})
    return standing(f"n{number}", 4.0, pod, cpu=8000, memory=32 * GIB)


def test_with_one_pod_of_a_gang_all_of_it_restarts():
    ranks = [a_rank(number) for number in range(4)]
    costs = Restarts(ranks, PLAN_NOW)
    one = costs.of_pod["uid-rank-0"]

    assert one == round(1_000_000 * (5 + START_UP / timedelta(hours=1)))
    assert costs.together(ranks[0].machine.pods) == 4 * one
    assert costs.together([pod for each in ranks for pod in each.machine.pods]) == 4 * one
    alone = a_rank(5, gang="")
    assert Restarts([*ranks, alone], PLAN_NOW).together([*ranks[0].machine.pods, *alone.machine.pods]) == 5 * one


def test_members_on_machines_whose_price_is_not_known_count_as_much_as_the_others():
    members = {"team/train": frozenset(f"uid-rank-{number}" for number in range(6))}
    costs = Restarts([a_rank(0), a_rank(1)], PLAN_NOW, members)

    assert costs.together(a_rank(0).machine.pods) == 6 * costs.of_pod["uid-rank-0"]
