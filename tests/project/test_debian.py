"""Programs that come as Debian packages are found, or it is said what to install."""

import os
from pathlib import Path

import pytest

from tools.toolbox import debian


def test_a_program_on_the_path_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    program = tmp_path / "mtype"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(debian, "SEARCHED", str(tmp_path))

    assert debian.programs(("mtype",)) == {"mtype": program}


def test_who_may_not_install_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(debian, "SEARCHED", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    with pytest.raises(debian.NotInstalled, match="no mtype, sgdisk here; on Debian: apt-get install gdisk mtools"):
        debian.programs(("mtype", "sgdisk"))


def test_root_tries_to_install_what_is_missing_once_more_with_fresh_lists(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\necho "$1" >>"{tmp_path}/asked"\nexit 100\n')
    apt.chmod(0o755)
    monkeypatch.setattr(debian, "SEARCHED", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    with pytest.raises(debian.NotInstalled):
        debian.programs(("sgdisk",))
    assert (tmp_path / "asked").read_text().split() == ["install", "update", "install"]
