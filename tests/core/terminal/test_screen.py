import io
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.core.terminal.snapshots import NOW, a_machine, a_snapshot, an_event, an_object
from tgp.interfaces.terminal.keys import Glance
from tgp.interfaces.terminal.screen import FOOTER, HEADER, SECTIONS, TerminalScreen, share
from tgp.interfaces.terminal.snapshot import CostRow, PlanSummary, ScenarioLine, Snapshot, WaitingRow

SMALLEST = HEADER + SECTIONS + FOOTER  # below it even the headings do not fit; Live cuts what is too much


def drawn(snapshot: Snapshot, width: int = 120, height: int = 40, glance: Glance | None = None, **how) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, **how)
    console.print(TerminalScreen(snapshot, glance), height=height)
    return out.getvalue().rstrip("\n").split("\n")


def plain(snapshot: Snapshot, width: int = 120, height: int = 40, glance: Glance | None = None) -> list[str]:
    return drawn(snapshot, width, height, glance, color_system=None)


def a_plan(**rest) -> PlanSummary:
    return replace(PlanSummary(NOW - timedelta(seconds=30), "0.8%", 2, 1), **rest)


def a_wait(name: str, reason: str = "", *, minutes: float = 5, ordered: bool = False) -> WaitingRow:
    return WaitingRow(name, NOW - timedelta(minutes=minutes), reason, ordered)


def test_the_plan_and_what_pods_cost_are_two_lines():
    plan = a_plan(hourly_microusd=5_000_000, alone_microusd=9_000_000)
    lines = plain(a_snapshot(plan=plan), width=80, height=24)

    assert "Pools  plan 30s ago: 2 machines ordered, 1 not served, within 0.8% of the best" in lines
    assert "  pods of pools cost $5.00/h; with one machine per pod they would cost $9.00/h" in lines
    assert any(
        "1 machine ordered, the cheapest possible" in line
        for line in plain(a_snapshot(plan=a_plan(gap="0%", orders=1, unserved=0)))
    )
    assert not any("Pools" in line for line in plain(a_snapshot(plan=plan), height=SMALLEST + SECTIONS))


def test_a_gap_names_what_the_best_possible_need_not_keep():
    plan = a_plan(gap="40.98%", gap_without="zone topology")
    assert any("within 40.98% of the best without zone topology" in line for line in plain(a_snapshot(plan=plan)))


def test_pods_that_wait_for_one_reason_are_one_line_and_those_without_a_machine_come_first():
    limit = "ml/jobs: limits.resources is 8"
    waiting = (
        a_wait("ml/a", "Pool ml/jobs orders 1x T4", minutes=9, ordered=True),
        a_wait("ml/b", limit, minutes=2),
        a_wait("ml/c", limit, minutes=7),
        a_wait("ml/d", minutes=1),
    )
    lines = plain(a_snapshot(plan=a_plan(), waiting=waiting))
    told = [line.strip() for line in lines if line.startswith("  pod")]

    assert told == [
        f"pods ml/c and 1 more wait 7m  {limit}",
        "pod ml/d waits 60s  no Event of a pool yet",
        "pod ml/a waits 9m  Pool ml/jobs orders 1x T4",
    ]
    small = plain(a_snapshot(plan=a_plan(), waiting=waiting), height=SMALLEST + 2 * SECTIONS + 4)
    assert any(line.startswith("Pools") and "pods wait" in line for line in small), "what has no line is counted"


def test_the_screen_says_what_there_is_and_what_to_do_next():
    lines = plain(a_snapshot())
    text = "\n".join(lines)

    assert "Mon 05 Jan 09:30:00 UTC" in text
    assert "kubectl get tgp -A" in text
    assert "operator leads   reconciles 7" in text
    assert "pods: 3 running" in text
    assert "■□ 1/2" in text
    assert lines[-1].startswith(" next: kubectl describe gpunodepool training -n ml")


def test_the_next_command_has_the_whole_line_where_it_needs_it():
    """It is there to be copied."""
    command = "kubectl --kubeconfig .tgp/kubeconfig describe gpunodepool sweeps -n lab"
    longer = command.replace("sweeps", "large-models")

    assert plain(a_snapshot(hint=command), width=80)[-1].rstrip() == f" next: {command}"
    assert plain(a_snapshot(hint=longer), width=80)[-1].rstrip() == longer
    assert plain(a_snapshot(hint="kubectl get tgp"), width=80)[-1].rstrip().endswith("Ctrl-C ends")


def test_what_an_object_costs_stands_beside_it_and_the_sum_on_top():
    cost = CostRow(428_241, 184_501, NOW + timedelta(minutes=12))
    request = an_object("ml/notebook", kind="GPURequest", cost=cost)
    lines = plain(a_snapshot(objects=(request, an_object()), rented=1, hourly_microusd=428_241), width=150)
    (row,) = [line for line in lines if "ml/notebook" in line]
    (other,) = [line for line in lines if line.startswith("pool")]

    assert row.split()[4:7] == ["$0.43", "$0.18", "12m"]
    assert "$" not in other
    assert any("costs $0.43/h for 1 machine " in line for line in lines)
    assert not any("$" in line for line in plain(a_snapshot(objects=(request,)), width=90)), "no room for it"


@given(
    width=st.integers(20, 220),
    height=st.integers(SMALLEST, 70),
    counts=st.tuples(st.integers(0, 30), st.integers(0, 30), st.integers(0, 100), st.integers(0, 6)),
    held=st.sampled_from(["", "the invoice " * 20]),
    glance=st.sampled_from([None, Glance(filter="ml/pool-1", scroll=7), Glance(typing=True), Glance(help=True)]),
    scenario_lines=st.sampled_from([(), (ScenarioLine(NOW, "what the script did " * 20),)]),
    waiting=st.integers(0, 9),
    plan=st.sampled_from([None, a_plan(), a_plan(hourly_microusd=5_000_000, alone_microusd=9_000_000)]),
)
def test_nothing_ever_scrolls(*, width, height, counts, held, scenario_lines, glance, waiting, plan):
    """Whatever there is and however small the terminal: no line too many, none too long, and the hint is the last."""
    objects, machines, events, troubles = counts
    snapshot = a_snapshot(
        objects=tuple(an_object(f"ml/pool-{number}" * 5, message="why " * 60) for number in range(objects)),
        machines=tuple(a_machine(f"node-{number}", gpus=number) for number in range(machines)),
        events=tuple(an_event(number, message="what " * 60) for number in range(events)),
        troubles=tuple(f"trouble {number} " * 20 for number in range(troubles)),
        held=held,
        scenario_lines=scenario_lines,
        waiting=tuple(a_wait(f"ml/pod-{number}", f"for {number} reasons " * 20) for number in range(waiting)),
        plan=plan,
    )

    lines = plain(snapshot, width, height, glance)

    assert len(lines) <= height
    assert any("PAUSED" in line for line in lines) == bool(held)
    assert max(len(line) for line in lines) <= width
    typing = glance is not None and glance.typing
    alone = not typing and len(snapshot.hint) <= width < len(snapshot.hint) + len(" next: ")  # else it would be cut
    assert lines[-1].lstrip().startswith(snapshot.hint if alone else "next:")


@given(height=st.integers(SMALLEST, 200), objects=st.integers(0, 90), events=st.integers(0, 200))
def test_every_section_has_a_row_as_soon_as_there_is_room_for_one_each(height, objects, events):
    snapshot = a_snapshot(objects=(an_object(),) * objects, events=(an_event(),) * events)
    rows = share(height, snapshot)

    if height >= SMALLEST + 2 * SECTIONS:
        assert min(rows.objects, rows.machines, rows.events) >= 1
    else:
        assert (rows.machines, rows.events) == (0, 0)
        assert rows.objects >= (height > SMALLEST + 1), "what needs attention comes first on a small screen"


def test_the_newest_events_are_kept_when_room_is_scarce():
    events = tuple(an_event(30 - number, reason=f"Reason{number}") for number in range(30))
    text = "\n".join(plain(a_snapshot(events=events), height=24))

    assert "Reason29" in text
    assert "Reason0 " not in text


def test_what_is_hidden_is_counted():
    objects = tuple(an_object(f"ml/pool-{number:02}") for number in range(40))
    text = "\n".join(plain(a_snapshot(objects=objects), height=30))
    shown = text.count("ml/pool-")

    assert f"and {40 - shown} more below" in text


def test_unhappy_objects_are_counted_in_the_heading():
    assert "Objects (2), 1 needs attention" in "\n".join(
        plain(a_snapshot(objects=(an_object("a/b", good=False), an_object())))
    )


@pytest.mark.parametrize("height", [SMALLEST, 40])
def test_a_hold_stands_on_top_with_its_reason(height):
    """The header is where a user looks for the reason why nothing is bought."""
    held = "\n".join(plain(a_snapshot(held="the invoice; since 2026-11-15T13:14:59Z"), height=height))

    assert "PAUSED  no purchases: the invoice; since 2026-11-15T13:14:59Z" in held
    assert "operator leads   reconciles 7" in held
    assert "PAUSED" not in "\n".join(plain(a_snapshot(), height=height))


def test_an_empty_cluster_says_so():
    text = "\n".join(plain(a_snapshot(objects=(), machines=(), events=(), pods={})))

    assert "no objects of tgp yet" in text
    assert "no nodes" in text
    assert "no events yet" in text


@pytest.mark.parametrize("evil", ["a\x1b[2Jb", "a\nb", "a\rb", "[bold]a[/]", "a\x9b31mb"])
def test_foreign_text_cannot_move_the_cursor(evil):
    """Names and messages come from a cluster, where any user may have written them."""
    snapshot = a_snapshot(
        title=evil,
        troubles=(evil,),
        objects=(an_object(message=evil, reason=evil),),
        events=(an_event(message=evil, about=evil),),
        hint=evil,
    )
    text = "\n".join(plain(snapshot))

    assert not {"\x1b", "\r", "\x9b"} & set(text)
    if evil.startswith("["):
        assert evil in text  # shown as it is, not taken for markup


def test_no_color_means_no_colour(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    text = "\n".join(drawn(a_snapshot(objects=(an_object(good=False),))))

    assert "\x1b[31m" not in text
    assert "NotReady" in text


def test_the_last_step_of_a_script_stands_above_the_events():
    lines = plain(
        a_snapshot(
            scenario_lines=(
                ScenarioLine(NOW, "an older one"),
                ScenarioLine(NOW - timedelta(seconds=30), "node a lost power"),
            )
        )
    )
    (place,) = [
        number for number, line in enumerate(lines) if line.startswith("scenario: node a lost power  (30s ago)")
    ]

    assert lines[place + 1].startswith("Events")
    assert not any("an older one" in line for line in lines)


def test_a_filter_leaves_the_objects_that_have_its_text_and_says_so():
    objects = (an_object("ml/training"), an_object("ml/Notebook"), an_object("web/other", message="of the notebook"))
    text = "\n".join(plain(a_snapshot(objects=objects), glance=Glance(filter="notebook")))
    none = "\n".join(plain(a_snapshot(objects=objects), glance=Glance(filter="nothing like it")))

    assert "Objects (3)" in text
    assert ", 2 with 'notebook'" in text
    assert "ml/Notebook" in text
    assert "web/other" in text
    assert "pool  ml/training" not in text
    assert "no match" in none


def test_the_objects_scroll_and_stop_at_the_end():
    objects = tuple(an_object(f"ml/pool-{number:02}") for number in range(40))
    text = "\n".join(plain(a_snapshot(objects=objects), height=30, glance=Glance(scroll=5)))
    end = "\n".join(plain(a_snapshot(objects=objects), height=30, glance=Glance(scroll=39)))

    assert "(5 more above)" in text
    assert "ml/pool-04" not in text
    assert "ml/pool-05" in text
    assert "ml/pool-39" in end
    assert "more below" not in end


def test_without_keys_only_ctrl_c_is_promised():
    assert plain(a_snapshot())[-1].endswith("Ctrl-C ends")
    assert plain(a_snapshot(), glance=Glance())[-1].endswith("q ends, ? shows keys")
