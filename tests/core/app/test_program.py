"""A command in a hint is one that the reader's shell knows."""

from pathlib import Path

import pytest

from tgp.app.program import called


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    script = tmp_path / ".venv" / "bin" / "tgp"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    return tmp_path


def test_in_a_clone_it_is_called_by_its_path(clone: Path):
    """`make run` does not put it on the PATH."""
    assert called(clone / ".venv/bin/python", clone, None) == ".venv/bin/tgp"


def test_where_a_shell_finds_it_its_name_is_enough(clone: Path):
    assert called(clone / ".venv/bin/python", clone, str(clone / ".venv/bin/tgp")) == "tgp"


def test_another_one_on_the_path_is_not_this_one(clone: Path, tmp_path: Path):
    other = tmp_path / "tgp"
    other.write_text("")

    assert called(clone / ".venv/bin/python", clone, str(other)) == ".venv/bin/tgp"


def test_from_elsewhere_it_is_called_by_its_whole_path(clone: Path):
    assert called(clone / ".venv/bin/python", clone / "docs", None) == str(clone / ".venv/bin/tgp")


def test_where_nothing_was_installed_beside_its_python_its_name_must_do(tmp_path: Path):
    assert called(tmp_path / "python", tmp_path, None) == "tgp"
