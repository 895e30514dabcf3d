"""`make test` in parts: nothing is left out, nothing runs twice, and one failure anywhere is the failure of all."""

import os
import re
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.amounts import PROVING, QUICK, amount
from tools.lanes import LANES, Run, side_by_side, width
from tools.parts import PARTS, TOOLS, Part, step
from tools.prove import PROOFS, Proof, table
from tools.screen import said, summary
from tools.steps import Step
from tools.told import Over
from tools.toolbox.find import first_build
from tools.toolbox.pins import ETCD_SERVER as ETCD_TOOL

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))


class Seen:
    """A screen that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.at_once = 0

    def failed(self, run: Run, test: Over) -> None:
        self.lines.append(f"{test.test} failed in {run.step.name}")

    def ended(self, run: Run) -> None:
        self.lines.append(f"{run.step.name} ended")

    def under_way(self, runs, _waiting: int) -> None:
        self.at_once = max(self.at_once, len(runs))


class Kinds(Seen):
    """How many ran at a time of those who wait, and of the others."""

    def __init__(self) -> None:
        super().__init__()
        self.most = {True: 0, False: 0}

    def under_way(self, runs, waiting: int) -> None:
        super().under_way(runs, waiting)
        for kind in self.most:
            self.most[kind] = max(self.most[kind], sum(run.step.waits == kind for run in runs))


def a_part(path: Path, code: str) -> Step:
    """A part with one file of tests in it, beside those of the repository."""
    (path / "pytest.ini").write_text("[pytest]\n")
    file = path / "test_it.py"
    file.write_text(textwrap.dedent(code))
    command = (
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "tools.told",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "-c",
    )
    return Step(path.name, (*command, str(path / "pytest.ini"), str(file)))


@pytest.fixture
def room(tmp_path) -> Iterator[Path]:
    place = tmp_path / "room"
    place.mkdir()
    return place


# -- parts -------------------------------------------------------------------------------------------------------------


def runs_in(file: str, part: Part) -> bool:
    words = step(part).command
    path = ROOT / file
    left_out = [ROOT / word.removeprefix("--ignore=") for word in words if word.startswith("--ignore=")]
    named = [ROOT / word for word in words if word.startswith("tests")]
    return any(path.is_relative_to(one) for one in named) and not any(path.is_relative_to(one) for one in left_out)


def test_every_file_of_tests_is_in_exactly_one_part():
    homes = {file: [part.name for part in PARTS if runs_in(file, part)] for file in FILES}

    assert len(homes) > 200
    assert {file: names for file, names in homes.items() if len(names) != 1} == {}


def test_every_part_names_what_exists():
    """A part without a test would fail, but only after a quarter of an hour."""
    assert [path for part in PARTS for path in part.paths if not (ROOT / path).exists()] == []
    assert len({part.name for part in PARTS}) == len(PARTS)


def test_a_new_folder_is_in_a_part_without_a_word():
    found = [part.name for part in PARTS if runs_in("tests/brand_new/test_it.py", part)]

    assert found == ["the rest"]


# -- side by side ------------------------------------------------------------------------------------------------------


def test_what_failed_is_named_with_the_command_that_tries_it_alone(room):
    parts = [a_part(room, "def test_good(): pass\ndef test_bad(): assert 1 == 2\n"), Step("quiet", ("true",))]
    screen = Seen()

    runs = side_by_side(parts, screen, 2)
    told = "\n".join(summary(runs, 61.0))

    bad = next(run for run in runs if run.step.name == "room")
    assert [test.outcome for test in bad.tests] == ["passed", "failed"]
    assert "assert 1 == 2" in "\n".join(said(bad))
    assert any("test_bad failed in room" in line for line in screen.lines)
    assert "2 tests: 1 passed, 1 failed, in 1:01" in told
    assert "✗ room: 1 failed" in told
    assert f"-m pytest {bad.failed()[0].test}" in told
    assert "quiet" not in told
    assert 0 < bad.cpu_seconds < 60


def test_a_part_that_breaks_down_is_a_failure_although_no_test_failed(room):
    """Killed for want of memory, for one: it says nothing, and the tests it had run all passed."""
    code = """
        import os, signal
        def test_good(): pass
        def test_last(): os.kill(os.getpid(), signal.SIGKILL)
        """
    (run,) = side_by_side([a_part(room, code)], Seen(), 1)
    told = "\n".join(summary([run], 1.0))

    assert not run.good
    assert run.failed() == []
    assert "✗ room ended with -9" in told
    assert "test_last ran" in told


@pytest.mark.parametrize("code", ["import nothing_of_this_name\n", "def test_it(absent): pass\n", ""])
def test_what_cannot_even_begin_is_a_failure(room, code):
    """An import that fails, a fixture that does not exist, no test at all."""
    (run,) = side_by_side([a_part(room, code)], Seen(), 1)

    assert not run.good
    assert "✗ room" in "\n".join(summary([run], 1.0))


def test_a_good_part_shows_what_it_had_to_tell_and_no_dots(room):
    code = """
        def test_tally(capsys):
            with capsys.disabled():
                print("\\n8 of 8 caught")
        """
    (run,) = side_by_side([a_part(room, code)], Seen(), 1)

    assert run.good
    assert list(said(run)) == ["8 of 8 caught"]


def test_as_many_run_at_a_time_as_there_are_lanes():
    steps = [Step(f"step {number}", ("sleep", "0.2")) for number in range(4)]
    screen, alone = Seen(), Seen()

    side_by_side(steps, screen, 2)
    side_by_side(steps[:2], alone, 1)

    assert screen.at_once == 2
    assert alone.at_once == 1


def test_those_who_wait_have_lanes_beside_those_who_compute():
    computing = [Step(f"computes {number}", ("sleep", "0.3")) for number in range(3)]
    waiting = [Step(f"waits {number}", ("sleep", "0.3"), waits=True) for number in range(4)]
    kinds = Kinds()

    side_by_side([*waiting, *computing], kinds, 2)

    assert kinds.most == {True: 3, False: 2}
    assert kinds.at_once == 5


def test_what_needs_another_step_begins_after_its_end_and_the_others_do_not_wait(room):
    """However that ended: what is missing then is said by the tests that need it."""
    marks = room / "marks"
    slow = Step("tools", ("sh", "-c", f"sleep 0.5; echo tools >> {marks}; false"))
    needing = Step("needs", ("sh", "-c", f"echo needs >> {marks}"), after="tools")
    free = Step("free", ("sh", "-c", f"echo free >> {marks}"))

    runs = side_by_side([slow, needing, free], Seen(), 2)

    assert marks.read_text().split() == ["free", "tools", "needs"]
    assert {run.step.name: run.good for run in runs} == {"tools": False, "needs": True, "free": True}


def test_parts_that_need_no_tools_begin_before_these_are_built():
    waiting = {part.name for part in PARTS if step(part).after == TOOLS}

    assert {"controlplane", "realmesh", "contracts/talos"} <= waiting
    assert not {"sim", "sim/lifecycle", "sim/mutants", "core"} & waiting


def test_what_is_missing_is_told_with_its_minutes_and_nothing_where_all_is_there(tmp_path):
    """Minutes are pinned as two cores need them."""
    tools = [replace(ETCD_TOOL, minutes=10.0)]
    cores = len(os.sched_getaffinity(0))

    first, purpose = first_build(tools, {"TGP_CACHE": str(tmp_path)})

    assert f"1 programs are built first, about {round(20 / cores)} min on {cores} cores, once: etcd" in first
    assert "control plane" in purpose
    assert list(first_build(tools, {"TGP_CACHE": str(tmp_path), ETCD_TOOL.variable: "/bin/true"})) == []


AN_OPERATOR = ROOT / "tests" / "sim" / "an_operator.py"


# -- proving -----------------------------------------------------------------------------------------------------------


def test_every_proof_names_tests_that_exist_and_has_its_row():
    paths = [word.removeprefix("--ignore=") for proof in PROOFS for word in proof.words if "tests/" in word]
    runs = [Run(proof.step(), seconds=61.0, code=0) for proof in PROOFS]
    runs[0].code = 1

    header, *rows = table(PROOFS, runs)

    assert [path for path in paths if not (ROOT / path).exists()] == []
    assert header.split() == ["step", "what", "it", "proves", "time", "result"]
    assert [row.endswith("proved") for row in rows] == [False, *[True] * (len(PROOFS) - 1)]
    assert rows[0].endswith("1:01  FAILED")


def test_every_test_with_a_larger_amount_is_run_by_a_proof():
    """What `make test` leaves out is otherwise tried by nothing."""
    larger = re.compile(r"^from tests\.amounts import .*\b(amount|PROVING)\b", re.MULTILINE)
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if larger.search(path.read_text())]

    assert len(files) > 30
    assert [str(path) for path in files if not any(_runs(proof, path) for proof in PROOFS)] == [__file__]


def test_every_simulation_of_the_operator_is_run_by_a_proof():
    """With the shipped pauses, which tests/sim/an_operator.py shortens for `make test`."""
    files = [path for path in (ROOT / "tests" / "sim").rglob("test_*.py") if AN_OPERATOR in _imported(path)]

    assert len(files) > 40
    assert [str(path) for path in files if not any(_runs(proof, path) for proof in PROOFS)] == []


def _imported(path: Path) -> set[Path]:
    """The modules of tests/ that it needs, through others as well."""
    found: set[Path] = set()
    ahead = [path]
    while ahead:
        text = ahead.pop().read_text()
        named = re.findall(r"^(?:from|import) (tests(?:\.\w+)+)(?: import (\w+))?", text, re.MULTILINE)
        names = [name for module, part in named for name in (module, f"{module}.{part}")]
        new = {place for name in names if (place := ROOT / f"{name.replace('.', '/')}.py").exists()} - found
        found |= new
        ahead += new
    return found


def _runs(proof: Proof, path: Path) -> bool:
    left_out = [ROOT / word.removeprefix("--ignore=") for word in proof.words if word.startswith("--ignore=")]
    named = [ROOT / word for word in proof.words if word.startswith("tests/")]
    return any(map(path.is_relative_to, named)) and not any(map(path.is_relative_to, left_out))


def test_a_proof_tries_more_than_a_usual_run(monkeypatch):
    monkeypatch.delenv("TGP_HOURS", raising=False)
    assert amount(50, 5000, "TGP_HOURS") == (10 if QUICK else 5000 if PROVING else 50)
    monkeypatch.setenv("TGP_HOURS", "7")
    assert amount(50, 5000, "TGP_HOURS") == 7
    assert all(proof.step().command[:2] == ("env", "TGP_PROVE=1") for proof in PROOFS)


def test_no_file_is_compiled_twice_and_a_persons_settings_of_go_hold(monkeypatch):
    words = "import os, sys; print(sys.dont_write_bytecode, os.environ['GOGC'])"
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("GOGC", raising=False)
    (usual,) = side_by_side([Step("usual", (sys.executable, "-c", words))], Seen(), 1)
    monkeypatch.setenv("GOGC", "50")
    (said_so,) = side_by_side([Step("said", (sys.executable, "-c", words))], Seen(), 1)

    assert (usual.output.split(), said_so.output.split()) == (["False", "400"], ["False", "50"])


def test_ctrl_c_ends_all_of_them_and_lets_them_tidy_up(room):
    class Impatient(Seen):
        def under_way(self, _runs, _waiting: int) -> None:
            if (room / "begun").exists():
                raise KeyboardInterrupt

    code = f"""
        import time
        def test_long():
            try:
                open({str(room / "begun")!r}, "w").close()
                time.sleep(600)
            finally:
                open({str(room / "tidied")!r}, "w").close()
        """
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        side_by_side([a_part(room, code)], Impatient(), 1)

    assert (room / "tidied").exists()
    assert time.monotonic() - began < 60


def test_the_machine_decides_how_many_and_a_variable_overrules_it(monkeypatch):
    monkeypatch.delenv(LANES, raising=False)
    assert width() == len(os.sched_getaffinity(0))
    monkeypatch.setenv(LANES, "3")
    assert width() == 3
    monkeypatch.setenv(LANES, "none")
    with pytest.raises(SystemExit, match="TGP_LANES=none"):
        width()
