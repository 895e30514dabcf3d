"""What a machine's place in its mesh means for its life."""

from typing import Any

from tests.core.requests.an_observation import a_condition, a_machine, a_node, ago, an_observation, listed
from tgp.core.model.instance import InstanceState
from tgp.core.model.mesh import MeshStatus
from tgp.core.requests.lifecycle import next_step
from tgp.core.requests.observation import MachinesInUse, RequestObservation
from tgp.core.requests.status import compute_status
from tgp.core.requests.steps import StartTermination, TerminationReason, Wait

OUT = MeshStatus(False, "DeviceUnknown", "the tailnet does not list train-1")
NOBODY_TELLS = MeshStatus(None, "MeshUnreachable", "the mesh answered 503")
LOST_AN_HOUR_AGO = a_condition("Connected", "DeviceUnknown", "False", since=ago(hours=1))


def in_use(**rest: Any) -> RequestObservation:
    fields = {"presence": listed(), "status": {"ready_at": ago(hours=2)}, "node": a_node(), **rest}
    return an_observation(a_machine(launched_at=ago(hours=3)), **fields)


def test_a_machine_that_its_mesh_has_forgotten_is_lost_after_a_while():
    step = next_step(in_use(mesh=OUT, conditions=(LOST_AN_HOUR_AGO,)))
    assert isinstance(step, StartTermination)
    assert step.end is TerminationReason.MESH_LOST


def test_it_is_not_lost_at_once_nor_while_the_mesh_is_silent_nor_while_many_nodes_are():
    assert isinstance(next_step(in_use(mesh=OUT)), Wait)
    assert isinstance(next_step(in_use(mesh=NOBODY_TELLS, conditions=(LOST_AN_HOUR_AGO,))), Wait)
    assert isinstance(
        next_step(
            in_use(mesh=OUT, conditions=(LOST_AN_HOUR_AGO,), in_use=MachinesInUse(in_mesh=(False,) * 5 + (True,)))
        ),
        Wait,
    )


def test_a_node_that_the_mesh_does_not_know_is_not_ready_and_says_why():
    status = compute_status(an_observation(a_machine(), presence=listed(), node=a_node(), mesh=OUT), Wait("", ""))
    held = {each.type: each for each in status.updates}
    assert held["Ready"].status is False
    assert held["Ready"].reason == "DeviceUnknown"
    assert held["Connected"].status is False
    assert status.phase == "Joining"


def test_a_mesh_that_cannot_be_asked_holds_back_the_first_ready_and_no_later_one():
    first = compute_status(
        an_observation(a_machine(), presence=listed(), node=a_node(), mesh=NOBODY_TELLS), Wait("", "")
    )
    assert first.phase == "Joining"
    later = compute_status(in_use(mesh=NOBODY_TELLS, conditions=(a_condition("Connected", "Connected"),)), Wait("", ""))
    assert later.phase == "Ready"
    assert next(each for each in later.updates if each.type == "Connected").status is True


def test_where_it_is_in_the_mesh_goes_into_the_status():
    stand = MeshStatus(True, "Connected", "train-1 is 100.64.0.7 in the tailnet", "train-1.tail.ts.net", "100.64.0.7")
    status = compute_status(an_observation(a_machine(), presence=listed(), node=a_node(), mesh=stand), Wait("", ""))
    assert status.phase == "Ready"
    assert (status.parts["meshHostname"], status.parts["meshAddress"]) == ("train-1.tail.ts.net", "100.64.0.7")


def test_a_machine_whose_node_came_outside_the_mesh_is_terminated_at_the_deadline_with_that_reason():
    joined = a_condition("Registered", "Registered", since=ago(hours=1))
    step = next_step(
        an_observation(
            a_machine(launched_at=ago(hours=2)), presence=listed(), node=a_node(), mesh=OUT, conditions=(joined,)
        )
    )
    assert isinstance(step, StartTermination)
    assert step.end is TerminationReason.NEVER_INITIALIZED
    assert "does not list train-1" in step.message


def test_a_machine_that_never_joined_is_named_once_and_what_its_mesh_says_is_a_sentence():
    out = MeshStatus(False, "DeviceMissing", "The tailnet does not list train-1 yet")
    step = next_step(
        an_observation(a_machine(launched_at=ago(hours=2)), presence=listed(), node=a_node(node=None), mesh=out)
    )
    starting = next_step(
        an_observation(
            a_machine(launched_at=ago(hours=2)),
            presence=listed(InstanceState.STARTING),
            node=a_node(node=None),
        )
    )

    assert isinstance(step, StartTermination)
    assert step.message.startswith("Machine i-1 at vast has not registered a Node; the deadline was ")
    assert step.message.endswith("Z. The tailnet does not list train-1 yet.")
    assert isinstance(starting, StartTermination)
    assert starting.message.startswith("Provider vast has not started machine i-1; the deadline was ")
