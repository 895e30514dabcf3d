"""One thing goes wrong at one side effect of a move, at each of them: it goes on, or is taken back and tried again.

A machine is replaced, and two machines of two pools are exchanged for one. By default one act in turn is tried at each
side effect that says something new; of the exchange, that is what the requests and machines of a replacement did not do
as well. `make prove` tries all five at every one of both.
"""

from collections.abc import Callable, Iterable

import pytest

from tests.amounts import PROVING, amount
from tests.sim.lifecycle.a_world import SimEnv, sim_env
from tests.sim.lifecycle.forks import Forks
from tests.sim.lifecycle.reference import gist_of
from tests.sim.test_disruption import drift, names, one_machine, requests, running, taints
from tests.sim.test_pools_together import full, one_for_both
from tgp.api.resource import NODE
from tgp.sim.plans import Act

OURS = ("gpurequests", "nodes", "machines")
OF_MOVES = (  # of these each enumeration tries an act of its own; the lives of requests are alike in all
    "PATCH kubernetes gpurequests  [] [] ['metadata.annotations', 'metadata.resourceVersion'",
    "PATCH kubernetes nodes  [] [] ['metadata.resourceVersion', 'spec.taints'",
    "POST kubernetes gpurequests",
    "DELETE kubernetes gpurequests",
)
ACTS = tuple(Act)
QUIET_MINUTES = amount(10, 20)
_seen: set[str] = set()  # gists of enumerations before


class EachOnce:
    """Acts at side effects that say something new of a request, a Node or a machine, from `begin` on."""

    def __init__(self, first: int) -> None:
        self.begun = False
        self._known = frozenset() if PROVING else frozenset(_seen)
        self._tried: set[str] = set()
        self._turn = first

    def __call__(self, gist: str) -> Iterable[Act]:
        if not self.begun or gist in self._tried or not any(f" {kind}" in gist for kind in OURS):
            return ()
        if gist in self._known and not gist.startswith(OF_MOVES):
            return ()
        self._tried.add(gist)
        _seen.add(gist)
        self._turn += 1
        if PROVING:
            return ACTS
        worth = gist.startswith(OF_MOVES) or self._turn % 2
        return (ACTS[self._turn % len(ACTS)],) if worth else ()


def ready_nodes(env: SimEnv) -> int:
    def is_ready(node) -> bool:
        return any(row["type"] == "Ready" and row["status"] == "True" for row in node["status"].get("conditions", ()))

    return sum(
        is_ready(node) for node in env.world.api.local_api.objects(NODE) if node["metadata"]["name"] in env.nodes()
    )


def replaced(env: SimEnv) -> set[str]:
    """One machine is in use, and will drift. Returns which machines have to go."""
    return {one_machine(env)}


def a_move(
    forks: Forks, worth: EachOnce, furnish: Callable[[SimEnv], set[str]], cause: Callable[[SimEnv], None]
) -> int:
    """The machines that `furnish` named are replaced by one. Returns how many machines were rented in all."""
    with sim_env(furnish.__name__) as env:
        forks.install(env.world.network)
        before = furnish(env)
        pods = running(env)
        worth.begun = True
        cause(env)
        leaving = False
        for _ in range(4 * 360):
            env.world.run(seconds=10)
            old = [row for row in requests(env) if row["metadata"]["name"] in before]
            if not leaving and any("deletionTimestamp" in row["metadata"] for row in old):
                leaving = True
                assert ready_nodes(env) == len(before) + 1, "what replaces them is ready before the first one goes"
            if not old and running(env) == pods:
                break
        worth.begun = False
        assert not names(env) & before, "they were replaced in the end"
        env.world.run(minutes=QUIET_MINUTES)
        assert running(env) == pods
        assert taints(env) == []
        assert len(requests(env)) == len(env.living()) == 1
        return len(env.simulator.fleet.machines)


@pytest.mark.parametrize(
    ("furnish", "cause", "first", "rented", "at_most"),
    [(replaced, drift, 0, 2, 3), (full, one_for_both, 2, 3, 5)],
    ids=["one for one", "two for one"],
)
def test_whatever_fails_at_a_side_effect_of_a_move_it_is_done_in_the_end(furnish, cause, first, rented, at_most):
    """`rented`: machines, where nothing fails. `at_most`: few replacements were taken back. `first`: act in turn."""
    worth = EachOnce(first)
    forks = Forks(worth, gist_of)
    reference = forks.finish(lambda: a_move(forks, worth, furnish, cause))

    assert reference == rented
    wrong = [f"{tried.plan} ({tried.gist})\n{tried.failure}" for tried in forks.tried if tried.failure]
    assert not wrong, f"{len(wrong)} of {len(forks.tried)} plans failed\n" + "\n".join(wrong[:5])
    assert {each for each in OF_MOVES if any(tried.gist.startswith(each) for tried in forks.tried)} == {*OF_MOVES}
    assert max(tried.result for tried in forks.tried) <= at_most
    print(f"{len(forks.tried)} plans")
