"""The machine's own clocks, threads, luck, programs and names."""

import asyncio
import os
import sys
import threading
import time
from datetime import UTC, timedelta
from ipaddress import ip_address

import pytest

from tgp.adapters.clock import SystemClock
from tgp.adapters.compute import Threads
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.exec import MAX_COMPLAINT_BYTES, MAX_OUTPUT_BYTES, SystemExec
from tgp.adapters.resolver import SystemResolver
from tgp.ports.exec import Ended, ProgramFailed
from tgp.ports.resolver import UnknownHost

A_WHILE = timedelta(seconds=20)


def python(script: str, *args: str) -> tuple[str, ...]:
    return (sys.executable, "-c", script, *args)


async def run(script: str, within: timedelta = A_WHILE, **env: str) -> Ended:
    return await SystemExec().run(python(script), env, within)


def test_the_wall_clock_knows_its_zone():
    assert SystemClock().now().tzinfo is UTC


def test_the_boot_clock_counts_sleep_and_only_grows():
    clock = SystemClock()
    first = clock.boottime()

    assert clock.boottime() >= first
    assert first == pytest.approx(time.clock_gettime(time.CLOCK_BOOTTIME), abs=5)


def test_luck_differs():
    entropy = SystemEntropy()

    assert len({entropy.token(16) for _ in range(100)}) == 100
    assert len(entropy.token(5)) == 5
    assert all(0 <= entropy.jitter() < 1 for _ in range(1000))


async def test_work_runs_beside_the_loop():
    compute, main = Threads(), threading.get_ident()

    assert await compute.run(threading.get_ident) != main
    with pytest.raises(ZeroDivisionError):
        await compute.run(lambda: 1 // 0)
    compute.close()


async def test_work_is_bounded():
    compute, running, most = Threads(workers=2, waiting=4), [], []

    def work() -> None:
        running.append(1)
        most.append(len(running))
        time.sleep(0.01)
        running.pop()

    await asyncio.gather(*(compute.run(work) for _ in range(20)))
    assert max(most) <= 2
    compute.close()


FIRST_IN_MANY_THREADS = """
import asyncio, sys, threading
import msgspec
from tgp.adapters.compute import Threads
threads = Threads(workers=16)

def nested(number):
    made, data = int, b"1"
    for depth in range(12):
        class Each(msgspec.Struct, frozen=True):
            a: made | None = None
            b: tuple[made, ...] = ()
            c: dict[str, made] = {}
        made, data = Each, b'{"a": %s}' % data
    return made, data

async def main():
    for type_, data in map(nested, range(40)):
        together = threading.Barrier(16)

        def work():
            together.wait()
            return msgspec.json.decode(data, type=type_)

        await asyncio.gather(*(threads.run(work) for _ in range(16)))

sys.setswitchinterval(1e-6)
asyncio.run(main())
threads.close()
"""


async def test_a_type_may_first_be_decoded_by_many_threads_at_once():
    """Without preparation msgspec ends the process, ten times of ten."""
    ended = await run(FIRST_IN_MANY_THREADS, PATH=os.environ["PATH"])

    assert ended.code == 0, ended


async def test_a_program_runs_to_its_end():
    ended = await run("import sys, os; print(os.environ['WHO']); print('oh', file=sys.stderr); sys.exit(3)", WHO="ann")

    assert (ended.code, ended.output, ended.complaint) == (3, b"ann\n", b"oh\n")


async def test_a_program_keeps_our_environment():
    ended = await run("import os; print(os.environ['PATH'])")

    assert ended.output.decode().strip() == os.environ["PATH"]


async def test_a_program_has_nothing_to_read():
    assert (await run("import sys; print(repr(sys.stdin.read()))")).output == b"''\n"


async def test_a_program_that_takes_too_long_is_killed_with_its_children():
    script = (
        "import os, subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "open(os.environ['NOTE'], 'w').write(f'{os.getpid()} {child.pid}');"
        "time.sleep(60)"
    )
    read, write = os.pipe()
    os.set_inheritable(write, True)
    note = f"/proc/{os.getpid()}/fd/{write}"
    with pytest.raises(ProgramFailed, match=r"did not exit within 1\.5 s"):
        await run(script, timedelta(seconds=1.5), NOTE=note)
    os.close(write)
    pids = [int(word) for word in os.read(read, 100).split()]
    os.close(read)

    assert len(pids) == 2
    for pid in pids:
        await _gone(pid)


async def _gone(pid: int) -> None:
    async with asyncio.timeout(5):
        while True:
            try:
                with open(f"/proc/{pid}/stat") as stat:  # noqa: ASYNC230, PTH123 - /proc does not block
                    if stat.read().split()[2] == "Z":
                        return  # killed, and left to the reaper of orphan processes
            except FileNotFoundError:
                return
            await asyncio.sleep(0.01)


async def test_a_program_that_talks_without_end_is_stopped():
    with pytest.raises(ProgramFailed, match=f"more than {MAX_OUTPUT_BYTES} bytes"):
        await run("while True: print('x' * 100_000)")


async def test_complaints_are_kept_only_in_part():
    ended = await run("import sys; sys.stderr.write('x' * 1_000_000); print('done')")

    assert ended.output == b"done\n"
    assert len(ended.complaint) == MAX_COMPLAINT_BYTES


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (("/no/such/program",), "no such program"),
        (("/etc",), "could not be started"),
        (("true", "a\0b"), "NUL"),
    ],
)
async def test_a_program_that_cannot_be_started_says_why(argv: tuple[str, ...], why: str):
    with pytest.raises(ProgramFailed, match=why):
        await SystemExec().run(argv, {}, A_WHILE)


async def test_cancelling_a_program_ends_it():
    task = asyncio.create_task(run("import time; time.sleep(60)"))
    await asyncio.sleep(0.2)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(5):
            await task


def test_what_a_program_printed_is_not_in_its_repr():
    assert "s3cr3t" not in repr(Ended(0, b"s3cr3t", b"s3cr3t"))


async def test_names_become_addresses():
    assert ip_address("127.0.0.1") in await SystemResolver().resolve("localhost")
    assert await SystemResolver().resolve("127.0.0.1") == (ip_address("127.0.0.1"),)
    assert await SystemResolver().resolve("::1") == (ip_address("::1"),)


@pytest.mark.parametrize("host", ["", "a" * 70, "a..b"])
async def test_what_is_no_name_is_unknown(host: str):
    with pytest.raises(UnknownHost):
        await SystemResolver().resolve(host)
