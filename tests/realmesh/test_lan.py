"""The small computers themselves: alone, together, and gone without a trace."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.realmesh.traffic import carried
from tools.lan import Lan, LanFailed, missing
from tools.lan.wireguard import Peer, peers_of

ROOT = Path(__file__).parents[2]
LEAVES_A_LAN_BEHIND = """
import sys, time
from pathlib import Path
from tools.lan import Lan
with Lan(Path(sys.argv[1])) as lan:
    host = lan.host("a")
    host.start("stubborn", ["sh", "-c", "trap '' TERM; sleep 4711 & wait; wait"])
    print(*(Path(f"/proc/{each.pid}/ns/net").readlink() for each in lan.hosts), flush=True)
    time.sleep(300)
"""


def networks() -> set[str]:
    """The network namespaces that some process is in."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/ns/net"):
        try:
            found.add(str(link.readlink()))
        except OSError:
            continue  # it ended while we looked
    return found


def interfaces() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


def test_two_computers_reach_each_other_and_no_third_one_sees_them(lan):
    before = interfaces()
    one, other = lan.host("one"), lan.host("other")

    assert carried(one, other, other.address)
    assert interfaces() == before
    assert one.run("sh", "-c", "ls /proc | grep -c '^[0-9]'").strip() in {"2", "3", "4", "5"}, "its own processes only"
    one.run("touch", "/run/mine")
    assert "mine" not in other.run("ls", "/run")


def test_a_command_that_fails_says_which_and_why(lan):
    host = lan.host("one")

    with pytest.raises(LanFailed, match=r"one: ip link show nothing ended with 1: .*does not exist"):
        host.run("ip", "link", "show", "nothing")
    with pytest.raises(LanFailed, match=r"did not end within 0.2 s"):
        host.run("sleep", "5", bound_s=0.2)


def test_a_failure_in_the_middle_leaves_nothing(tmp_path):
    made: set[str] = set()
    with pytest.raises(ZeroDivisionError), Lan(tmp_path / "lan") as lan:
        host = lan.host("a")
        host.start("long", ["sleep", "4711"])
        made.add(str(Path(f"/proc/{host.pid}/ns/net").readlink()))
        raise ZeroDivisionError

    _are_gone(made)


def test_even_a_killed_run_leaves_nothing(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", LEAVES_A_LAN_BEHIND, str(tmp_path / "lan")],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    ) as run:
        assert run.stdout is not None
        made = set(run.stdout.readline().split())
        assert made
        assert made <= networks()
        os.kill(run.pid, signal.SIGKILL)

    _are_gone(made)


def _are_gone(made: set[str]) -> None:
    give_up_at = time.monotonic() + 10
    while left := made & networks():
        assert time.monotonic() < give_up_at, f"{left} are still there"
        time.sleep(0.05)


def test_who_is_not_root_is_told_what_is_missing(monkeypatch):
    assert missing() == ""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert missing() == "root, who may make network namespaces"


def test_what_wg_would_not_read_is_not_read_here_either():
    assert peers_of("# absent\n") == []
    assert peers_of("[Peer]\nPublicKey = k # hers\nAllowedIPs = 10.0.0.2/32, fd00::2/128\n") == [
        Peer("k", ("10.0.0.2/32", "fd00::2/128"))
    ]
    for wrong in ("PublicKey = k\n", "[Peer]\nPublicKey k\n", "[Peer]\nSomething = else\n"):
        with pytest.raises(LanFailed, match="is not one of a peer"):
            peers_of(wrong)
