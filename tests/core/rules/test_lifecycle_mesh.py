"""What a machine's place in its mesh means for its life."""

from typing import Any

from tests.core.rules.a_sight import a_condition, a_machine, a_node, a_sight, ago, listed
from tgp.core.model.mesh import MeshStand
from tgp.core.rules.lifecycle import next_step
from tgp.core.rules.lifecycle_words import tell
from tgp.core.rules.sight import Sight
from tgp.core.rules.steps import Begin, End, Rest

OUT = MeshStand(False, "DeviceUnknown", "the tailnet does not list train-1")
NOBODY_TELLS = MeshStand(None, "MeshUnreachable", "the mesh answered 503")
LOST_AN_HOUR_AGO = a_condition("Connected", "DeviceUnknown", "False", since=ago(hours=1))


def in_use(**rest: Any) -> Sight:
    told = {"presence": listed(), "status": {"ready_at": ago(hours=2)}, "node": a_node(), **rest}
    return a_sight(a_machine(launched_at=ago(hours=3)), **told)


def test_a_machine_that_its_mesh_has_forgotten_is_lost_after_a_while():
    step = next_step(in_use(mesh=OUT, conditions=(LOST_AN_HOUR_AGO,)))
    assert isinstance(step, Begin)
    assert step.end is End.MESH_LOST


def test_it_is_not_given_up_at_once_nor_while_nobody_can_tell_nor_while_many_are_silent():
    assert isinstance(next_step(in_use(mesh=OUT)), Rest)
    assert isinstance(next_step(in_use(mesh=NOBODY_TELLS, conditions=(LOST_AN_HOUR_AGO,))), Rest)
    assert isinstance(next_step(in_use(mesh=OUT, conditions=(LOST_AN_HOUR_AGO,), many_unseen="5 of 6")), Rest)


def test_a_node_that_the_mesh_does_not_know_is_not_ready_and_says_why():
    story = tell(a_sight(a_machine(), presence=listed(), node=a_node(), mesh=OUT), Rest("", ""))
    held = {each.type: each for each in story.verdicts}
    assert held["Ready"].status is False
    assert held["Ready"].reason == "DeviceUnknown"
    assert held["Connected"].status is False
    assert story.phase == "Joining"


def test_a_mesh_that_cannot_be_asked_holds_back_the_first_ready_and_no_later_one():
    first = tell(a_sight(a_machine(), presence=listed(), node=a_node(), mesh=NOBODY_TELLS), Rest("", ""))
    assert first.phase == "Joining"
    later = tell(in_use(mesh=NOBODY_TELLS, conditions=(a_condition("Connected", "Connected"),)), Rest("", ""))
    assert later.phase == "Ready"
    assert next(each for each in later.verdicts if each.type == "Connected").status is True


def test_where_it_is_in_the_mesh_goes_into_the_status():
    stand = MeshStand(True, "Connected", "train-1 is 100.64.0.7 in the tailnet", "train-1.tail.ts.net", "100.64.0.7")
    story = tell(a_sight(a_machine(), presence=listed(), node=a_node(), mesh=stand), Rest("", ""))
    assert story.phase == "Ready"
    assert (story.parts["meshHostname"], story.parts["meshAddress"]) == ("train-1.tail.ts.net", "100.64.0.7")


def test_a_machine_whose_node_came_outside_the_mesh_is_given_back_at_the_deadline_with_that_reason():
    joined = a_condition("Registered", "Registered", since=ago(hours=1))
    step = next_step(
        a_sight(a_machine(launched_at=ago(hours=2)), presence=listed(), node=a_node(), mesh=OUT, conditions=(joined,))
    )
    assert isinstance(step, Begin)
    assert step.end is End.NEVER_INITIALIZED
    assert "does not list train-1" in step.message
