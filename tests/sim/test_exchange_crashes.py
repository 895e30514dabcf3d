"""One thing goes wrong at one side effect of an exchange of two machines for one, at each of them.

It goes on, or is taken back and tried again. By default one act in turn is tried at each side effect that says
something new; `make prove` tries all five.
"""

from tests.sim.lifecycle.a_world import sim_env
from tests.sim.lifecycle.forks import Forks
from tests.sim.lifecycle.reference import gist_of
from tests.sim.test_disruption import names, requests, running, taints
from tests.sim.test_disruption_crashes import EachOnce, ready_nodes
from tests.sim.test_exchanges import in_use, sells


def an_exchange(forks: Forks, worth: EachOnce) -> dict[str, int]:
    """Two machines become one. What is told: machines that were rented."""
    with sim_env("exchange-crashes") as env:
        forks.install(env.world.network)
        sells(env, t4_1=0.40)
        before = in_use(env, 2, budgets=[{"nodes": "100%"}])
        worth.begun = True
        sells(env, rtx4090_2=0.30)
        leaving = False
        for _ in range(4 * 360):
            env.world.run(seconds=10)
            old = [row for row in requests(env) if row["metadata"]["name"] in before]
            if not leaving and any("deletionTimestamp" in row["metadata"] for row in old):
                leaving = True
                assert ready_nodes(env) == 3, "what replaces them is ready before the first one goes"
            if not old and running(env) == 2:
                break
        worth.begun = False
        assert not names(env) & before, "they were exchanged in the end"
        env.world.run(minutes=20)
        assert running(env) == 2
        assert taints(env) == []
        assert len(requests(env)) == len(env.living()) == 1
        return {"rented": len(env.simulator.fleet.machines)}


def test_whatever_fails_at_a_side_effect_of_an_exchange_it_is_done_in_the_end():
    worth = EachOnce()
    forks = Forks(worth, gist_of)
    reference = forks.finish(lambda: an_exchange(forks, worth))

    assert reference == {"rented": 3}
    wrong = [f"{tried.plan} ({tried.gist})\n{tried.failure}" for tried in forks.tried if tried.failure]
    assert not wrong, f"{len(wrong)} of {len(forks.tried)} plans failed\n" + "\n".join(wrong[:5])
    assert len(forks.tried) >= 10
    assert max(tried.result["rented"] for tried in forks.tried) <= 5, "few replacements were taken back"
    print(f"{len(forks.tried)} plans")
