"""Vendors' clients are installed once, from their locks, and found again; what cannot be is said in words."""

import pytest

from tools import clients
from tools.clients import client_environment
from tools.toolbox.trouble import ToolboxError

LOCK = "tiny==1.0 \\\n    --hash=sha256:00\n"


@pytest.fixture
def places(tmp_path, monkeypatch):
    """Locks and a cache of their own; gives the environment and what was said."""
    monkeypatch.setattr(clients, "LOCKS", tmp_path)
    (tmp_path / "tiny.txt").write_text(LOCK)
    said = []
    return {"TGP_CACHE": str(tmp_path / "cache")}, said


def made(monkeypatch, fails=False):
    """Stands in for pip: notes its commands, and makes the directory it would make."""
    commands = []

    def run(command, _log, requirement, _say):
        commands.append(command)
        if "venv" in command:
            clients.Path(command[-1]).mkdir(parents=True)
        elif fails:
            raise ToolboxError(f"{requirement} could not be installed")

    monkeypatch.setattr(clients, "_run", run)
    return commands


def test_an_environment_is_made_once_and_then_found_in_silence(places, monkeypatch):
    environ, said = places
    commands = made(monkeypatch)
    first = client_environment("tiny", "tiny==1.0", said.append, environ)
    told = len(said)
    second = client_environment("tiny", "tiny==1.0", said.append, environ)

    assert first == second
    assert len(commands) == 2
    assert told == len(said) == 2
    assert "--require-hashes" in commands[1]


def test_another_lock_is_another_environment(places, monkeypatch, tmp_path):
    environ, said = places
    made(monkeypatch)
    first = client_environment("tiny", "tiny==1.0", said.append, environ)
    (tmp_path / "tiny.txt").write_text(LOCK + "other==2.0 \\\n    --hash=sha256:11\n")

    assert client_environment("tiny", "tiny==1.0", said.append, environ) != first


def test_a_half_made_environment_is_made_anew(places, monkeypatch):
    """A run that died between the two steps leaves nothing that a later run would trust."""
    environ, said = places
    made(monkeypatch, fails=True)
    with pytest.raises(ToolboxError):
        client_environment("tiny", "tiny==1.0", said.append, environ)
    made(monkeypatch)
    place = client_environment("tiny", "tiny==1.0", said.append, environ)

    assert (place / clients.FINISHED).is_file()


@pytest.mark.parametrize("requirement", ["tiny==1.0.1", "tiny==1", "iny==1.0", "tiny"])
def test_a_release_that_is_not_in_the_lock_is_refused(places, requirement):
    environ, said = places

    with pytest.raises(ToolboxError, match=r"tiny\.txt"):
        client_environment("tiny", requirement, said.append, environ)


def test_a_client_without_a_lock_is_refused(places):
    environ, said = places

    with pytest.raises(ToolboxError, match="make lock"):
        client_environment("other", "other==1", said.append, environ)
