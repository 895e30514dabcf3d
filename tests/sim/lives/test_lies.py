"""Providers that go on lying, and silences that last: everything that is not believed at once has a bound."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.sim.an_operator import NAMESPACE_NAME
from tests.sim.lives.an_estate import Lives, a_hand, lives, write
from tests.sim.lives.reference import QUICK
from tests.sim.mutants.histories import wipe
from tests.sim.mutants.lying_histories import FULL, begin
from tgp.api.resource import NAMESPACE, NODE
from tgp.api.values import rfc3339
from tgp.core.model.trust import trust_key
from tgp.ports.http import Call
from tgp.sim.checkers.everyone import INVARIANTS
from tgp.sim.checkers.lies import NoLieBelieved
from tgp.sim.checkers.objects import FinalizerHolds
from tgp.sim.checkers.seen import Claim
from tgp.sim.checkers.witness import Checker, Violation, Witness
from tgp.sim.clouds.fleet import Lie
from tgp.sim.clouds.machine import Phase
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.sim.world import KUBERNETES

NAMES = ("one", "two", "three", "four")


class OneAtATime(Checker):
    """Never two requests that give a machine back at the same time."""

    invariant = "one at a time"

    def claimed(self, before: Claim | None, after: Claim | None) -> None:  # noqa: ARG002 - only what is there now
        ending = [claim.name for claim in self.witness.claims.values() if claim.phase == "Terminating"]
        if len(ending) > 1:
            self.blame(", ".join(ending))


class Endings(Checker):
    """For each machine that begins to be given back, how many others are on their way."""

    def __init__(self, witness: Witness) -> None:
        super().__init__(witness)
        self.beside: list[int] = []

    def claimed(self, before: Claim | None, after: Claim | None) -> None:
        if after is not None and after.phase == "Terminating" and (before is None or before.phase != "Terminating"):
            self.beside.append(sum(claim.phase == "Terminating" for claim in self.witness.claims.values()) - 1)


def ended(stage: Lives) -> int:
    return sum(stage.phase(name) in ("Terminating", "Failed", "Finished", "Pending") for name in NAMES)


def test_a_state_that_is_said_for_an_hour_is_believed_one_machine_at_a_time():
    kinds = (*(kind for kind in INVARIANTS if kind is not NoLieBelieved), OneAtATime)
    with lives(1, kubelets=QUICK, invariants=kinds) as stage:
        begin(stage, *NAMES, limits=FULL)
        stage.shop.fleet.lie = Lie(phase=Phase.STOPPED)
        stage.world.run(minutes=58)
        assert ended(stage) == 0
        assert stage.condition("ProviderInconsistent", "one")[1] == "StateContradicted"
        stage.until(lambda: ended(stage) == 1, minutes=10)
        stage.until(lambda: ended(stage) == len(NAMES), minutes=60)


def test_machines_silent_together_for_two_hours_are_terminated_one_at_a_time():
    """Until two are left: so few may always be given up at once."""
    with lives(1, kubelets=QUICK) as stage:
        begin(stage, *NAMES, limits=FULL)
        for node in stage.nodes():
            stage.estate.fall_silent(node)
        stage.until(lambda: all(stage.condition("Ready", name)[0] == "False" for name in NAMES), minutes=5)
        assert "no machine is terminated for it within 2 h, then one at a time" in stage.condition("Ready", "one")[2]
        stage.world.run(minutes=110)
        assert ended(stage) == 0
        endings = stage.witness.add(Endings(stage.witness))
        stage.until(lambda: len(endings.beside) == len(NAMES), minutes=60)
        assert endings.beside[:2] == [0, 0], "two of four went at the same time"


def test_a_person_says_that_the_lists_are_right_and_purchases_go_on():
    """The machines are gone, truly, and their Nodes with them: then nothing has to wait for an hour."""
    with lives(1, kubelets=QUICK) as stage:
        machines = begin(stage, "one", "two")
        for machine in machines:
            stage.shop.fleet.vanish(machine)
        stage.until(lambda: stage.condition("Launched", "two")[1] == "ProviderInconsistent", minutes=10)
        stage.world.run(minutes=5)
        assert not stage.living()
        word = {"metadata": {"annotations": {trust_key("simulated"): rfc3339(stage.world.clock.now())}}}
        stage.world.api.backstage.merge_patch(NAMESPACE, "", NAMESPACE_NAME, word)
        stage.until(lambda: stage.phase("one") == stage.phase("two") == "Ready", minutes=15)


def test_an_hour_of_consistent_lists_says_so_as_well():
    with lives(1, kubelets=QUICK) as stage:
        for machine in begin(stage, "one", "two"):
            stage.shop.fleet.vanish(machine)
        stage.world.run(minutes=55)
        assert not stage.living()
        stage.until(lambda: stage.phase("one") == stage.phase("two") == "Ready", minutes=30)


def test_the_last_machine_that_is_said_to_be_dear_is_kept_when_the_other_one_goes():
    """It was said of both at once: that one of them was deleted meanwhile makes it no truer of the other."""
    with lives(1, kubelets=QUICK) as stage:
        one, _ = begin(stage, "one", "two", limits=FULL)
        stage.shop.fleet.lie = Lie(times=100)
        stage.until(lambda: stage.condition("ProviderInconsistent", "one")[1] == "SeveralAtOnce", minutes=3)
        stage.drops("two")
        stage.world.run(minutes=5)
        stage.shop.fleet.lie = None
        stage.world.run(minutes=5)

        assert stage.living() == [one]
        assert stage.phase("one") == "Ready"


def test_a_machine_found_again_in_a_list_of_wrong_prices_is_kept():
    """Its order's answer was lost, and the first list that shows it names a hundred times its price."""
    with lives(1, kubelets=QUICK) as stage:
        begin(stage, limits=FULL)
        stage.shop.mishaps.aim(Mishap.HANG_UP_AFTER, Verb.LAUNCH)
        stage.shop.fleet.lie = Lie(times=100)
        stage.wants("one", idleTimeout="Never")
        stage.until(lambda: any("launchedAt" in row for row in stage.attempts("one")), minutes=5, step=0.5)
        stage.world.run(seconds=5)
        stage.shop.fleet.lie = None
        (machine,) = stage.living()
        assert "hourlyPrice" not in stage.attempts("one")[-1], "a price that was said once is on the bill"
        stage.until(lambda: stage.phase("one") == "Ready", minutes=20)

        assert stage.living() == [machine]
        assert float(stage.attempts("one")[-1]["hourlyPrice"]) < 5


def test_a_spot_machine_that_was_taken_back_is_replaced_within_three_minutes():
    """Its Node is not Ready any more: that confirms what the provider says."""
    with lives(1, kubelets=QUICK) as stage:
        begin(stage, instanceRequirements={"spotAllowed": True})
        stage.wants("one", spot=True, restartPolicy="OnLoss", idleTimeout="Never")
        stage.until(lambda: stage.phase("one") == "Ready", minutes=20)
        (machine,) = stage.living()
        stage.shop.fleet.interrupt(machine, stage.shop.fleet.advance())
        stage.until(lambda: machine not in stage.living(), minutes=3)
        stage.until(lambda: stage.phase("one") == "Ready", minutes=10)


def test_a_request_deleted_while_its_machine_is_denied_ends_it_once_it_is_shown():
    with lives(1, kubelets=QUICK) as stage:
        (machine,) = begin(stage, "one")
        stage.shop.fleet.lie = Lie(denies=True)
        stage.world.run(minutes=3)
        stage.drops("one")
        stage.world.run(minutes=10)
        assert machine in stage.living()
        assert stage.phase("one") == "Terminating", "its Node is Ready: it is not gone"
        stage.shop.fleet.lie = None
        stage.until(lambda: stage.request("one") is None, minutes=10)
        assert stage.living() == []


def test_an_order_in_doubt_is_not_given_up_while_its_account_denies_machines_that_serve():
    """Its answer is lost, and then everything is denied: what was made is found when the account tells the truth."""
    with lives(1, kubelets=QUICK) as stage:
        begin(stage, "one", "two", limits=FULL)
        stage.shop.fleet.habits = replace(stage.shop.fleet.habits, list_lag=(9.0, 9.0))
        stage.shop.mishaps.aim(Mishap.HANG_UP_AFTER, Verb.LAUNCH)
        stage.wants("three", idleTimeout="Never")
        stage.until(lambda: len(stage.living()) == 3, minutes=3, step=0.5)
        stage.shop.fleet.lie = Lie(denies=True)
        stage.world.run(minutes=6)
        assert [row.get("outcome") for row in stage.attempts("three")] == [None]
        assert "contradicted themselves or the Nodes" in stage.condition("Launched", "three")[2]
        stage.shop.fleet.lie = None
        stage.until(lambda: stage.phase("three") == "Ready", minutes=10)

        assert len(stage.shop.fleet.machines) == 3, "it was given up and bought again"


def test_a_wiped_request_is_not_let_go_while_its_node_is_ready_and_its_account_denies_the_machine():
    with lives(1, kubelets=QUICK) as stage:
        (machine,) = begin(stage, "one")
        stage.shop.fleet.lie = Lie(denies=True)
        stage.world.run(minutes=3)
        wipe(stage, "one")
        stage.drops("one")
        stage.world.run(minutes=10)
        assert machine in stage.living()
        assert stage.phase("one") == "Pending", "its Node is Ready: it is not gone"
        stage.shop.fleet.lie = None
        stage.until(lambda: stage.request("one") is None, minutes=10)

        assert stage.living() == []


def test_a_wiped_request_is_let_go_at_last_whatever_its_node_says():
    """Deletion ends: after an hour lists are believed, as with everything that they say."""
    kinds = tuple(kind for kind in INVARIANTS if kind is not FinalizerHolds)
    with lives(1, kubelets=QUICK, invariants=kinds) as stage:
        begin(stage, "one")
        stage.shop.fleet.lie = Lie(denies=True)
        stage.world.run(minutes=3)
        wipe(stage, "one")
        stage.drops("one")
        stage.until(lambda: stage.request("one") is None, minutes=70)


def test_an_accepted_termination_is_remembered_by_the_next_leader(monkeypatch):
    """A Node that stays Ready contradicts lists; it does not contradict the provider that agreed to terminate."""
    with lives(1, kubelets=QUICK, invariants=()) as stage:
        begin(stage)
        monkeypatch.setattr(stage.estate, "_stop", lambda *_: None)  # its kubelet goes on reporting
        stage.wants("one", idleTimeout="Never")
        stage.until(lambda: stage.phase("one") == "Ready", minutes=20)
        stage.drops("one")
        stage.until(lambda: "terminationAcceptedAt" in stage.request("one")["status"]["attempts"][-1], minutes=5)
        stage.world.processes["tgp-0"].crash()
        assert stage.request("one") is not None
        stage.until(lambda: stage.request("one") is None, minutes=10)


def test_deleting_a_ready_node_whose_machine_runs_is_seen():
    with lives(1, kubelets=QUICK) as stage, pytest.raises(Violation, match=r"I26: Node .* is Ready, and .* runs"):
        begin(stage, "one")
        call = Call("DELETE", NODE.path(name=stage.nodes()[0]), timeout=timedelta(seconds=5))
        stage.world.until(a_hand(stage.world).http(KUBERNETES).send(call))


def test_giving_a_machine_back_for_what_is_not_so_is_seen():
    for reason in ("Lost", "TooDear"):
        with lives(1, kubelets=QUICK) as stage, pytest.raises(Violation, match=f"I27: .* back as {reason}, and it "):
            begin(stage, "one")
            untrue = {"type": "Terminating", "status": "True", "reason": reason, "message": ""}
            since = {"lastTransitionTime": rfc3339(stage.world.clock.now())}
            write(stage, "one", conditions=[*stage.request("one")["status"]["conditions"], untrue | since])
            stage.world.run(seconds=5)
