from dataclasses import replace

from tests.core.terminal.scenes import NOW, a_happening, a_scene, a_thing
from tgp.surfaces.terminal.lines import Teller
from tgp.surfaces.terminal.scene import Story


def test_a_quiet_scene_is_told_once():
    teller = Teller()

    assert teller.tell(a_scene()) == [
        "09:29:00Z · pool ml/training: Valid: it is well",
        "09:30:00Z = pool ml/training: Ready (Valid): because",
    ]
    assert teller.tell(a_scene()) == []


def test_a_verdict_is_told_again_when_it_changes_and_not_when_only_its_words_do():
    teller = Teller()
    teller.tell(a_scene(things=(a_thing(),)))

    assert teller.tell(a_scene(things=(a_thing(message="in other words"),))) == []
    assert teller.tell(a_scene(things=(a_thing(good=False),))) == [
        "09:30:00Z = pool ml/training: NotReady (NodeClassNotFound): because"
    ]


def test_a_hold_is_told_when_it_begins_and_when_it_ends():
    teller = Teller()
    teller.tell(a_scene())

    assert teller.tell(a_scene(held="the invoice")) == ["09:30:00Z ! held: nothing is bought: the invoice"]
    assert teller.tell(a_scene(held="the invoice")) == []
    assert teller.tell(a_scene()) == ["09:30:00Z = held: no more"]


def test_an_object_that_went_is_told():
    teller = Teller()
    teller.tell(a_scene())

    assert teller.tell(a_scene(things=())) == ["09:30:00Z = pool ml/training: gone"]


def test_warnings_and_repeats_are_marked():
    happening = a_happening(warning=True, times=3)

    assert Teller().tell(a_scene(things=(), happenings=(happening,))) == [
        "09:29:00Z ! pool ml/training: Valid: it is well (x3)"
    ]


def test_a_trouble_is_told_when_it_begins_and_when_it_comes_back():
    teller = Teller()
    quiet = a_scene(things=(), happenings=())
    troubled = replace(quiet, troubles=("may not be read with these rights: nodes",))

    assert teller.tell(troubled) == ["09:30:00Z ! may not be read with these rights: nodes"]
    assert teller.tell(troubled) == []
    assert teller.tell(quiet) == []
    assert teller.tell(troubled) != []


def test_a_line_is_one_line_whatever_was_written_in_the_cluster():
    scene = a_scene(things=(), happenings=(a_happening(message="first\nsecond\x1b[2J"),))

    assert Teller().tell(scene) == ["09:29:00Z · pool ml/training: Valid: first second [2J"]


def test_an_object_nobody_has_judged_says_so():
    thing = a_thing(good=None, reason="", message="nobody has judged it yet")

    assert Teller().tell(a_scene(happenings=(), things=(thing,))) == [
        "09:30:00Z = pool ml/training: nobody has judged it yet"
    ]


def test_each_step_of_a_script_is_told_once():
    first, second = Story(NOW, "node a lost power for 7m"), Story(NOW, "node a has power again")
    teller = Teller()

    told = teller.tell(a_scene(stories=(first,)))
    later = teller.tell(a_scene(stories=(first, second)))

    assert told[0].endswith(" story: node a lost power for 7m")
    assert [line for line in later if "story" in line] == [f"{NOW:%H:%M:%S} story: node a has power again"]
