"""The real kubectl against both API servers: it must not be able to tell them apart."""

import difflib

import pytest

from tests.contracts.kubectl.conftest import Servers
from tests.contracts.kubectl.player import Seen
from tests.contracts.kubectl.script import Script
from tests.contracts.kubectl.scripts.every import SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_kubectl_cannot_tell_the_servers_apart(script: Script, servers: Servers):
    """Every command ends alike, prints alike, and says what it must on either server."""
    ours, theirs = servers.play(script)
    unlike = sum(1 for one in ours if one.command.unlike)
    servers.tally.commands += len(ours) - unlike
    servers.tally.unlike += unlike

    faults = [
        f"{where}: {fault}"
        for where, seen in (("memory", ours), ("real", theirs))
        for one in seen
        if (fault := one.fault())
    ]
    differences = [text for mine, real in zip(ours, theirs, strict=True) if (text := difference(mine, real))]
    servers.tally.differences += len(differences)
    assert not faults + differences, "\n\n".join([f"{len(differences)} differences", *faults, *differences])


def difference(ours: Seen, theirs: Seen) -> str:
    """What a reader would see differ between the two; empty: nothing."""
    if ours.command.unlike or ours.comparable == theirs.comparable:
        return ""
    real, memory = (str(seen.comparable[0]) + "\n" + "\n".join(seen.comparable[1:]) for seen in (theirs, ours))
    lines = difflib.unified_diff(real.splitlines(), memory.splitlines(), "real", "memory", lineterm="", n=2)
    return f"$ kubectl {ours.command.line}\n" + "\n".join(lines)
