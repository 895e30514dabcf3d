"""One thing goes wrong at one side effect of joining, at every one of them: the end is the same, and nothing is left.

The side effects by which a machine is let in and put out again: the book of what was made, the mesh's keys and devices,
bootstrap tokens, certificate requests, and what the image factory is asked. At each: crash before it, crash after it, a
pause past the Lease, an answer that is lost, an old view.

By default the acts take turns, one at each. `TGP_PLANS=each` tries all five at each. One plan alone:
`TGP_PLANS='pause at tgp-0#42'`.
"""

import os
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.amounts import PROVING
from tests.sim.joining.a_tailnet import Joining, a_tailnet_class, joining, talos_operator
from tests.sim.lifecycle.forks import Forks
from tests.sim.lifecycle.reference import CLASS, run_workload
from tests.sim.lifecycle.test_enumerated import differences
from tgp.adapters.image_factory.wire import DEFAULT_URL as FACTORY
from tgp.adapters.mesh.tailscale.server_flavour import TAILSCALE_API
from tgp.sim.node_bootstrap import NodeFault
from tgp.sim.plans import Act, FaultPlan

SAID = os.environ.get("TGP_PLANS", "each" if PROVING else "")
EACH = SAID in ("all", "each")
ACTS = tuple(Act)
LEAST = 12  # side effects of a machine that joins and leaves: fewer, and the workload would not be the one it was
QUIET = 2.0  # minutes, beside those before it
HOUR = 60.0
# A leader that dies or stands still at the moment when a token should go: the next one needs its Lease first.
BOUNDS = {"after_joining": 300.0, "after_the_end": 600.0}


@dataclass(frozen=True)
class Joins:
    """Apply, Ready over a tailnet, deleted; nothing is left of what was made for it."""

    name: str = "joins over a tailnet"
    replicas: int = 2

    def begin(self, env: Joining) -> None:
        a_tailnet_class(env, CLASS)

    def play(self, env: Joining) -> None:
        env.wants(idleTimeout="Never")
        env.until(lambda: env.phase() == "Ready")
        env.until(lambda: not env.bootstrap_tokens(), minutes=10)
        env.drops()
        env.until(lambda: env.request() is None)
        env.until(env.nothing_is_left, minutes=240)  # a key whose maker never heard of it ends by itself


@dataclass(frozen=True)
class FailsOnce(Joins):
    """The first machine never gets into the tailnet: it is terminated with all that was made for it; the next joins."""

    name: str = "does not join at first"

    def begin(self, env: Joining) -> None:
        a_tailnet_class(env, CLASS, timeouts={"launch": "6m", "boot": "1m", "join": "2m", "initialize": "3m"})
        env.node_bootstrap.node_faults.named["train-"] = [NodeFault.NEVER_MESHED]

    def play(self, env: Joining) -> None:
        super().play(env)
        outcomes = [seen for seen in env.node_bootstrap.node_faults.seen if seen is NodeFault.NEVER_MESHED]
        assert outcomes, "a machine failed to join"


def gist_of(endpoint: str, call: Any) -> str:
    """What a side effect of joining says, without names; empty: it is none."""
    parts = call.path.strip("/").split("/")
    if endpoint in (TAILSCALE_API, FACTORY):
        known = ("oauth", "keys", "device", "schematics")
        return f"{call.method} {endpoint} {' '.join(part for part in parts if part in known)}"
    told = msgspec.json.decode(call.body) if call.body[:1] == b"{" else {}
    if "certificatesigningrequests" in parts:
        return f"{call.method} certificate request {parts[-1] if parts[-1] == 'approval' else ''}"
    if "secrets" in parts and "kube-system" in parts:
        return f"{call.method} token {_fields(told)}"
    if "configmaps" in parts and (parts[-1] == "tgp-boot" or (told.get("metadata") or {}).get("name") == "tgp-boot"):
        lines = [msgspec.json.decode(line) if line else {} for line in (told.get("data") or {}).values()]
        return f"{call.method} book {sorted(name for line in lines for name in (*line, *(line.get('mesh') or ())))}"
    return ""


def _fields(told: dict[str, Any]) -> list[str]:
    return sorted(f"{part}.{name}" for part in ("metadata", "data") for name in told.get(part) or ())


class Worth:
    """Which acts are tried at a side effect. `only`: at those that begin so, where not all are tried."""

    def __init__(self, only: tuple[str, ...] = ()) -> None:
        self._only = only
        self.plans = 0
        self.effects: list[str] = []

    def __call__(self, gist: str) -> tuple[Act, ...]:
        if not gist or gist in self.effects:
            return ()
        self.effects.append(gist)
        acts = self._acts(gist)
        self.plans += len(acts)
        return acts

    def _acts(self, gist: str) -> tuple[Act, ...]:
        if EACH:
            return ACTS
        if SAID or (self._only and not gist.startswith(self._only)):
            return ()
        turn = len(self.effects)
        return (ACTS[turn % len(ACTS)],) if turn % 2 else ()


def play(workload: Joins, **options: Any) -> Any:
    environments = partial(joining, bounds=BOUNDS)
    quiet = HOUR if EACH else QUIET
    return run_workload(
        "joins", workload=workload, environments=environments, replica=talos_operator, quiet=quiet, **options
    )


@pytest.mark.parametrize(
    ("workload", "only"), [(Joins(), ()), (FailsOnce(), ("DELETE", "PATCH book []"))], ids=["joins", "fails once"]
)
def test_whatever_fails_at_whichever_side_effect_of_joining_nothing_is_left(workload, only):
    worth = Worth(only)
    forks = Forks(worth, gist_of)
    reference = forks.finish(lambda: play(workload, forks=forks))

    wrong = [f"{tried.plan} ({tried.gist})\n{tried.failure}" for tried in forks.tried if tried.failure]
    for tried in forks.tried:
        if tried.result is not None:
            wrong += [f"{tried.plan} ({tried.gist}): {line}" for line in differences(reference, tried.result)]
    print(f"{workload.name}: covered {len(forks.tried)} of {worth.plans} plans at {len(worth.effects)} side effects")
    for gist in worth.effects:
        print(f"  {gist}")
    assert len(worth.effects) >= LEAST, worth.effects
    assert not wrong, f"{len(wrong)} plans failed\n" + "\n".join(wrong[:5])


@pytest.mark.skipif(" at " not in SAID, reason="one plan is tried alone only by name")
@pytest.mark.parametrize("workload", [Joins(), FailsOnce()], ids=["joins", "fails once"])
def test_one_plan_alone(workload):
    act, _, place = SAID.partition(" at ")
    process, _, number = place.partition("#")
    found = differences(play(workload), play(workload, plan=FaultPlan(process, int(number), Act(act))))
    assert not found, found
