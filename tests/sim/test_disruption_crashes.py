"""One thing goes wrong at one side effect of a move, at each of them: it goes on, or is taken back and tried again.

By default one act in turn is tried at each side effect that says something new; `make prove` tries all five.
"""

from collections.abc import Iterable

from tests.amounts import PROVING
from tests.sim.lifecycle.a_world import sim_env
from tests.sim.lifecycle.forks import Forks
from tests.sim.lifecycle.reference import gist_of
from tests.sim.test_disruption import drift, names, of, one_machine, requests, running, taints
from tgp.api.resource import NODE
from tgp.sim.plans import Act

OURS = ("gpurequests", "nodes", "machines")
ACTS = tuple(Act)


class EachOnce:
    """Acts at side effects that say something new of a request, a Node or a machine, from `begin` on."""

    def __init__(self) -> None:
        self.begun = False
        self._seen: set[str] = set()
        self._turn = 0

    def __call__(self, gist: str) -> Iterable[Act]:
        if not self.begun or gist in self._seen or not any(f" {kind}" in gist for kind in OURS):
            return ()
        self._seen.add(gist)
        self._turn += 1
        return ACTS if PROVING else (ACTS[self._turn % len(ACTS)],)


def ready_nodes(env) -> int:
    def is_ready(node) -> bool:
        return any(row["type"] == "Ready" and row["status"] == "True" for row in node["status"].get("conditions", ()))

    return sum(
        is_ready(node) for node in env.world.api.local_api.objects(NODE) if node["metadata"]["name"] in env.nodes()
    )


def a_move(forks: Forks, worth: EachOnce) -> dict[str, int]:
    """One machine drifts and is replaced. What is told: machines that were rented, and that are left."""
    with sim_env("crashes") as env:
        forks.install(env.world.network)
        name = one_machine(env)
        worth.begun = True
        drift(env)
        leaving = False
        for _ in range(3 * 360):
            env.world.run(seconds=10)
            if name in names(env) and not leaving and "deletionTimestamp" in of(env, name)["metadata"]:
                leaving = True
                assert ready_nodes(env) == 2, "its replacement is ready before it goes"
            if name not in names(env) and running(env) == 1:
                break
        worth.begun = False
        assert name not in names(env), "it was replaced in the end"
        env.world.run(minutes=15)
        assert running(env) == 1
        assert taints(env) == []
        assert len(requests(env)) == len(env.living()) == 1
        return {"rented": len(env.simulator.fleet.machines)}


def test_whatever_fails_at_a_side_effect_of_a_move_the_machine_is_replaced_and_one_is_left():
    worth = EachOnce()
    forks = Forks(worth, gist_of)
    reference = forks.finish(lambda: a_move(forks, worth))

    assert reference == {"rented": 2}
    wrong = [f"{tried.plan} ({tried.gist})\n{tried.failure}" for tried in forks.tried if tried.failure]
    assert not wrong, f"{len(wrong)} of {len(forks.tried)} plans failed\n" + "\n".join(wrong[:5])
    assert len(forks.tried) >= 10
    assert max(tried.result["rented"] for tried in forks.tried) <= 3, "at most one replacement was taken back"
    print(f"{len(forks.tried)} plans")
