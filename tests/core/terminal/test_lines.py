from dataclasses import replace

from tests.core.terminal.snapshots import NOW, a_snapshot, an_event, an_object
from tgp.interfaces.terminal.lines import EVENTS_REMEMBERED, SnapshotLines
from tgp.interfaces.terminal.snapshot import ScenarioLine


def test_a_quiet_scene_is_told_once():
    printer = SnapshotLines()

    assert printer.lines(a_snapshot()) == [
        "09:29:00Z · pool ml/training: Valid: it is well",
        "09:30:00Z = pool ml/training: Ready (Valid): because",
    ]
    assert printer.lines(a_snapshot()) == []


def test_a_verdict_is_told_again_when_it_changes_and_not_when_only_its_words_do():
    printer = SnapshotLines()
    printer.lines(a_snapshot(objects=(an_object(),)))

    assert printer.lines(a_snapshot(objects=(an_object(message="in other words"),))) == []
    assert printer.lines(a_snapshot(objects=(an_object(good=False),))) == [
        "09:30:00Z = pool ml/training: NotReady (NodeClassNotFound): because"
    ]


def test_a_hold_is_told_when_it_begins_and_when_it_ends():
    printer = SnapshotLines()
    printer.lines(a_snapshot())

    assert printer.lines(a_snapshot(held="the invoice")) == ["09:30:00Z ! purchases are paused: the invoice"]
    assert printer.lines(a_snapshot(held="the invoice")) == []
    assert printer.lines(a_snapshot()) == ["09:30:00Z = purchases are not paused any more"]


def test_an_object_that_went_is_told():
    printer = SnapshotLines()
    printer.lines(a_snapshot())

    assert printer.lines(a_snapshot(objects=())) == ["09:30:00Z = pool ml/training: gone"]


def test_warnings_and_repeats_are_marked():
    event = an_event(warning=True, times=3)

    assert SnapshotLines().lines(a_snapshot(objects=(), events=(event,))) == [
        "09:29:00Z ! pool ml/training: Valid: it is well (x3)"
    ]


def test_a_trouble_is_told_when_it_begins_and_when_it_comes_back():
    printer = SnapshotLines()
    quiet = a_snapshot(objects=(), events=())
    troubled = replace(quiet, troubles=("may not be read with these rights: nodes",))

    assert printer.lines(troubled) == ["09:30:00Z ! may not be read with these rights: nodes"]
    assert printer.lines(troubled) == []
    assert printer.lines(quiet) == []
    assert printer.lines(troubled) != []


def test_a_line_is_one_line_whatever_was_written_in_the_cluster():
    snapshot = a_snapshot(objects=(), events=(an_event(message="first\nsecond\x1b[2J"),))

    assert SnapshotLines().lines(snapshot) == ["09:29:00Z · pool ml/training: Valid: first second [2J"]


def test_an_object_without_status_says_so():
    row = an_object(good=None, reason="", message="no status yet")

    assert SnapshotLines().lines(a_snapshot(events=(), objects=(row,))) == [
        "09:30:00Z = pool ml/training: no status yet"
    ]


def test_each_step_of_a_script_is_told_once():
    first, second = ScenarioLine(NOW, "node a lost power for 7m"), ScenarioLine(NOW, "node a has power again")
    printer = SnapshotLines()

    told = printer.lines(a_snapshot(scenario_lines=(first,)))
    later = printer.lines(a_snapshot(scenario_lines=(first, second)))

    assert told[0].endswith(" scenario: node a lost power for 7m")
    assert [line for line in later if "scenario" in line] == [f"{NOW:%H:%M:%SZ} scenario: node a has power again"]


def test_an_event_that_comes_back_into_the_window_is_not_told_again():
    """Newer ones were deleted: the window reaches further back once more."""
    printer = SnapshotLines()
    quiet = a_snapshot(objects=(), events=())
    first = an_event(message="the first")
    printer.lines(replace(quiet, events=(first,)))
    printer.lines(replace(quiet, events=(an_event(message="the second"),)))

    assert printer.lines(replace(quiet, events=(first,))) == []


def test_printed_events_are_remembered_up_to_a_bound():
    printer = SnapshotLines()
    quiet = a_snapshot(objects=(), events=())
    for number in range(EVENTS_REMEMBERED + 2):
        printer.lines(replace(quiet, events=(an_event(message=f"number {number}"),)))

    assert printer.lines(replace(quiet, events=(an_event(message="number 2"),))) == []
    assert printer.lines(replace(quiet, events=(an_event(message="number 0"),))) != []
