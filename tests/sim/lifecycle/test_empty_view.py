"""A new leader to whom the API server shows no request at all, and machines that are in use."""

import pytest

from tests.sim.an_operator import LONE, a_class, operator_main
from tests.sim.lifecycle.a_world import sim_env
from tgp.adapters.kube.store import Store
from tgp.api.resource import GPU_REQUEST
from tgp.core.model.token import plain_uid
from tgp.sim.checkers.money import ORPHANED_FOR


@pytest.fixture
def blind(monkeypatch):
    """While there is something in it, lists of requests are empty 200s."""
    held = []
    put = Store.replace

    async def replace(store, listed, version, *, rewound=False):
        shown = {} if held and store.resource is GPU_REQUEST else listed
        await put(store, shown, version, rewound=rewound)

    monkeypatch.setattr(Store, "replace", replace)
    return held


def begin(env):
    a_class(env.world, "rented")
    return env.world.process("operator", operator_main(LONE))


def test_a_new_leader_ends_nothing_on_the_word_of_an_empty_list(blind):
    """It has heard of no request, so it cannot ask for one by its name: it waits for another list, a minute later."""
    with sim_env("empty at first") as env:
        operator = begin(env)
        env.wants(idleTimeout="Never")
        env.works(run_for="10h")
        env.until(lambda: env.phase() == "Ready" and env.running_pods() != [], minutes=15)
        blind.append(True)
        operator.crash(restart_after=5.0)
        env.world.run(seconds=70)
        blind.clear()
        env.world.run(minutes=30)

        assert env.running_pods() != []
        assert env.phase() == "Ready"


def test_the_last_request_that_was_stripped_by_force_costs_no_longer_than_any_other():
    """Then there is truly no request: its machine is terminated within the time that an orphan may live."""
    with sim_env("the last one") as env:
        begin(env)
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready", minutes=15)
        env.recorder.forced[plain_uid(env.request()["metadata"]["uid"])] = None
        env.drops()
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        env.world.run(seconds=ORPHANED_FOR)

        assert env.living() == []
