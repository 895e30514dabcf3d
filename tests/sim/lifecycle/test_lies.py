"""Providers that go on lying, and silences that last: everything that is not believed at once has a bound."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.sim.an_operator import NAMESPACE_NAME
from tests.sim.lifecycle.a_world import SimEnv, a_hand, sim_env, write
from tests.sim.lifecycle.reference import QUICK
from tests.sim.mutants.a_history import wipe
from tests.sim.mutants.lying_histories import FULL, begin
from tgp.api.resource import NAMESPACE, NODE
from tgp.api.values import rfc3339
from tgp.core.model.provider_trust import trust_key
from tgp.ports.http import Call
from tgp.sim.checkers.lies import NoLieBelieved
from tgp.sim.checkers.objects import FinalizerHolds
from tgp.sim.checkers.recorded import RecordedRequest
from tgp.sim.checkers.recorder import Checker, Recorder, Violation
from tgp.sim.checkers.registry import INVARIANTS
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import Lie
from tgp.sim.clouds.machine import Phase
from tgp.sim.world import KUBERNETES

NAMES = ("one", "two", "three", "four")


class OneAtATime(Checker):
    """Never two requests that give a machine back at the same time."""

    invariant = "one at a time"

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:  # noqa: ARG002 - only what is there now
        ending = [claim.name for claim in self.recorder.claims.values() if claim.phase == "Terminating"]
        if len(ending) > 1:
            self.blame(", ".join(ending))


class Endings(Checker):
    """For each machine that begins to be terminated, how many others are on their way."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self.beside: list[int] = []

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        if after is not None and after.phase == "Terminating" and (before is None or before.phase != "Terminating"):
            self.beside.append(sum(claim.phase == "Terminating" for claim in self.recorder.claims.values()) - 1)


def ended(env: SimEnv) -> int:
    return sum(env.phase(name) in ("Terminating", "Failed", "Finished", "Pending") for name in NAMES)


def test_a_state_that_is_said_for_an_hour_is_believed_one_machine_at_a_time():
    kinds = (*(kind for kind in INVARIANTS if kind is not NoLieBelieved), OneAtATime)
    with sim_env(1, kubelets=QUICK, invariants=kinds) as env:
        begin(env, *NAMES, limits=FULL)
        env.simulator.fleet.lie = Lie(phase=Phase.STOPPED)
        env.world.run(minutes=58)
        assert ended(env) == 0
        assert env.condition("ProviderInconsistent", "one")[1] == "StateContradicted"
        env.until(lambda: ended(env) == 1, minutes=10)
        env.until(lambda: ended(env) == len(NAMES), minutes=60)


def test_machines_silent_together_for_two_hours_are_terminated_one_at_a_time():
    """Until two are left: so few may always be given up at once."""
    with sim_env(1, kubelets=QUICK) as env:
        begin(env, *NAMES, limits=FULL)
        for node in env.nodes():
            env.node_bootstrap.fall_silent(node)
        env.until(lambda: all(env.condition("Ready", name)[0] == "False" for name in NAMES), minutes=5)
        assert (
            "No machine is terminated for that within 2 h; after that, one at a time"
            in env.condition("Ready", "one")[2]
        )
        env.world.run(minutes=110)
        assert ended(env) == 0
        endings = env.recorder.add(Endings(env.recorder))
        env.until(lambda: len(endings.beside) == len(NAMES), minutes=60)
        assert endings.beside[:2] == [0, 0], "two of four went at the same time"


def test_a_person_says_that_the_lists_are_right_and_purchases_go_on():
    """The machines are gone, truly, and their Nodes with them: then nothing has to wait for an hour."""
    with sim_env(1, kubelets=QUICK) as env:
        machines = begin(env, "one", "two")
        for machine in machines:
            env.simulator.fleet.vanish(machine)
        env.until(lambda: env.condition("Launched", "two")[1] == "ProviderInconsistent", minutes=10)
        env.world.run(minutes=5)
        assert not env.living()
        word = {"metadata": {"annotations": {trust_key("simulated"): rfc3339(env.world.clock.now())}}}
        env.world.api.local_api.merge_patch(NAMESPACE, "", NAMESPACE_NAME, word)
        env.until(lambda: env.phase("one") == env.phase("two") == "Ready", minutes=15)


def test_an_hour_of_consistent_lists_says_so_as_well():
    with sim_env(1, kubelets=QUICK) as env:
        for machine in begin(env, "one", "two"):
            env.simulator.fleet.vanish(machine)
        env.world.run(minutes=55)
        assert not env.living()
        env.until(lambda: env.phase("one") == env.phase("two") == "Ready", minutes=30)


def test_the_last_machine_that_is_said_to_be_dear_is_kept_when_the_other_one_goes():
    """It was said of both at once: that one of them was deleted meanwhile makes it no truer of the other."""
    with sim_env(1, kubelets=QUICK) as env:
        one, _ = begin(env, "one", "two", limits=FULL)
        env.simulator.fleet.lie = Lie(times=100)
        env.until(lambda: env.condition("ProviderInconsistent", "one")[1] == "SeveralAtOnce", minutes=3)
        env.drops("two")
        env.world.run(minutes=5)
        env.simulator.fleet.lie = None
        env.world.run(minutes=5)

        assert env.living() == [one]
        assert env.phase("one") == "Ready"


def test_a_machine_found_again_in_a_list_of_wrong_prices_is_kept():
    """Its order's answer was lost, and the first list that shows it names a hundred times its price."""
    with sim_env(1, kubelets=QUICK) as env:
        begin(env, limits=FULL)
        env.simulator.faults.aim(CloudFault.HANG_UP_AFTER, CloudVerb.LAUNCH)
        env.simulator.fleet.lie = Lie(times=100)
        env.wants("one", idleTimeout="Never")
        env.until(lambda: any("launchedAt" in row for row in env.attempts("one")), minutes=5, step=0.5)
        env.world.run(seconds=5)
        env.simulator.fleet.lie = None
        (machine,) = env.living()
        assert "hourlyPrice" not in env.attempts("one")[-1], "a price that was said once is on the bill"
        env.until(lambda: env.phase("one") == "Ready", minutes=20)

        assert env.living() == [machine]
        assert float(env.attempts("one")[-1]["hourlyPrice"]) < 5


def test_a_spot_machine_that_was_taken_back_is_replaced_within_three_minutes():
    """Its Node is not Ready any more: that confirms what the provider says."""
    with sim_env(1, kubelets=QUICK) as env:
        begin(env, instanceRequirements={"spotAllowed": True})
        env.wants("one", spot=True, restartPolicy="OnLoss", idleTimeout="Never")
        env.until(lambda: env.phase("one") == "Ready", minutes=20)
        (machine,) = env.living()
        env.simulator.fleet.interrupt(machine, env.simulator.fleet.advance())
        env.until(lambda: machine not in env.living(), minutes=3)
        env.until(lambda: env.phase("one") == "Ready", minutes=10)


def test_a_request_deleted_while_its_machine_is_denied_ends_it_once_it_is_shown():
    with sim_env(1, kubelets=QUICK) as env:
        (machine,) = begin(env, "one")
        env.simulator.fleet.lie = Lie(denies=True)
        env.world.run(minutes=3)
        env.drops("one")
        env.world.run(minutes=10)
        assert machine in env.living()
        assert env.phase("one") == "Terminating", "its Node is Ready: it is not gone"
        env.simulator.fleet.lie = None
        env.until(lambda: env.request("one") is None, minutes=10)
        assert env.living() == []


def test_an_order_in_doubt_is_not_given_up_while_its_account_denies_machines_that_serve():
    """Its answer is lost, and then everything is denied: what was made is found when the account tells the truth."""
    with sim_env(1, kubelets=QUICK) as env:
        begin(env, "one", "two", limits=FULL)
        env.simulator.fleet.habits = replace(env.simulator.fleet.habits, list_lag=(9.0, 9.0))
        env.simulator.faults.aim(CloudFault.HANG_UP_AFTER, CloudVerb.LAUNCH)
        env.wants("three", idleTimeout="Never")
        env.until(lambda: len(env.living()) == 3, minutes=3, step=0.5)
        env.simulator.fleet.lie = Lie(denies=True)
        env.world.run(minutes=6)
        assert [row.get("outcome") for row in env.attempts("three")] == [None]
        assert "contradicted themselves or the Nodes" in env.condition("Launched", "three")[2]
        env.simulator.fleet.lie = None
        env.until(lambda: env.phase("three") == "Ready", minutes=10)

        assert len(env.simulator.fleet.machines) == 3, "it was given up and bought again"


def test_a_wiped_request_is_not_let_go_while_its_node_is_ready_and_its_account_denies_the_machine():
    with sim_env(1, kubelets=QUICK) as env:
        (machine,) = begin(env, "one")
        env.simulator.fleet.lie = Lie(denies=True)
        env.world.run(minutes=3)
        wipe(env, "one")
        env.drops("one")
        env.world.run(minutes=10)
        assert machine in env.living()
        assert env.phase("one") == "Pending", "its Node is Ready: it is not gone"
        env.simulator.fleet.lie = None
        env.until(lambda: env.request("one") is None, minutes=10)

        assert env.living() == []


def test_a_wiped_request_is_let_go_at_last_whatever_its_node_says():
    """Deletion ends: after an hour lists are believed, as with everything that they say."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not FinalizerHolds)
    with sim_env(1, kubelets=QUICK, invariants=kinds) as env:
        begin(env, "one")
        env.simulator.fleet.lie = Lie(denies=True)
        env.world.run(minutes=3)
        wipe(env, "one")
        env.drops("one")
        env.until(lambda: env.request("one") is None, minutes=70)


def test_an_accepted_termination_is_remembered_by_the_next_leader(monkeypatch):
    """A Node that stays Ready contradicts lists; it does not contradict the provider that agreed to terminate."""
    with sim_env(1, kubelets=QUICK, invariants=()) as env:
        begin(env)
        monkeypatch.setattr(env.node_bootstrap, "_stop", lambda *_: None)  # its kubelet goes on reporting
        env.wants("one", idleTimeout="Never")
        env.until(lambda: env.phase("one") == "Ready", minutes=20)
        env.drops("one")
        env.until(lambda: "terminationAcceptedAt" in env.request("one")["status"]["attempts"][-1], minutes=5)
        env.world.processes["tgp-0"].crash()
        assert env.request("one") is not None
        env.until(lambda: env.request("one") is None, minutes=10)


def test_deleting_a_ready_node_whose_machine_runs_is_seen():
    with sim_env(1, kubelets=QUICK) as env, pytest.raises(Violation, match=r"I26: Node .* is Ready, and .* runs"):
        begin(env, "one")
        call = Call("DELETE", NODE.path(name=env.nodes()[0]), timeout=timedelta(seconds=5))
        env.world.until(a_hand(env.world).http(KUBERNETES).send(call))


def test_giving_a_machine_back_for_what_is_not_so_is_seen():
    for reason in ("Lost", "PriceExceeded"):
        with sim_env(1, kubelets=QUICK) as env, pytest.raises(Violation, match=f"I27: .* back as {reason}, and it "):
            begin(env, "one")
            untrue = {"type": "Terminating", "status": "True", "reason": reason, "message": ""}
            since = {"lastTransitionTime": rfc3339(env.world.clock.now())}
            write(env, "one", conditions=[*env.request("one")["status"]["conditions"], untrue | since])
            env.world.run(seconds=5)
