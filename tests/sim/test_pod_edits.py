"""Pods that are edited while they wait: the next plan knows, at once."""

from typing import Any

import pytest

from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.test_gangs import worker
from tests.sim.with_pools import asks, begin, events_of, pod_of, requests
from tgp.api.resource import POD

TOLERATES = [{"key": "tgp.io/ephemeral", "operator": "Exists"}]


def edit(env: SimEnv, change: dict[str, Any], name: str = "train") -> None:
    if more := change.get("spec", {}).get("tolerations"):  # those that are there can only be added to
        change = {"spec": {"tolerations": [*pod_of(env, name)["spec"].get("tolerations", []), *more]}}
    env.world.api.local_api.merge_patch(POD, "default", name, change)


@pytest.mark.parametrize(
    ("spec", "annotations", "change"),
    [
        ({"tolerations": []}, {}, {"spec": {"tolerations": TOLERATES}}),
        ({}, {"tgp.io/max-price": "0.01"}, {"metadata": {"annotations": {"tgp.io/max-price": "9"}}}),
        ({}, {"tgp.io/gang": "g", "tgp.io/gang-size": "2"}, {"metadata": {"annotations": {"tgp.io/gang": ""}}}),
    ],
)
def test_a_pod_that_is_edited_while_it_waits_gets_its_machine(spec, annotations, change):
    """Kubernetes lets tolerations be added, and annotations be changed, at any time."""
    with sim_env("edited") as env:
        begin(env)
        asks(env, **spec)
        edit(env, {"metadata": {"annotations": annotations}})
        env.world.run(minutes=3)
        assert requests(env) == []
        assert [reason for reason, _ in events_of(env)] == ["NotTriggerScaleUp"]
        edit(env, change)
        env.until(lambda: len(requests(env)) == 1, minutes=1)


def test_the_last_pod_of_a_gang_is_noticed_though_it_requests_no_gpu():
    with sim_env("last of gang") as env:
        begin(env)
        worker(env, "worker-0")
        worker(env, "worker-1")
        env.world.run(minutes=3)
        assert requests(env) == []
        worker(env, "leader", gpus=0)
        env.until(lambda: len(requests(env)) == 2, minutes=0.25)
