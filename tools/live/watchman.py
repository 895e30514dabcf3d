"""A second process that waits for the first: if that one dies or takes too long, the watchman gives back what it left.

It is told "home" on its standard input when all is well; the end of the input without that word means that the walk is
dead. No signal of a terminal reaches it, and it keeps on until nothing is listed.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from tgp.adapters.clock import SystemClock
from tgp.adapters.clouds.registry import AllClouds
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.resolver import SystemResolver
from tools.live.asked import counter_of, settings_in
from tools.live.termination import NotShown, terminate

HOME = b"home\n"
ROOT = Path(__file__).parents[2]
DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STARTED = b"watching\n"


@contextmanager
def watchman(provider: str, prefix: str, within_s: float, environ: Mapping[str, str] = os.environ) -> Iterator[int]:
    """On duty while the block lasts; its process id. Only a block that ends well sends it home."""
    command = [sys.executable, "-m", __name__, provider, prefix, str(within_s)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=dict(environ),
        cwd=ROOT,
        start_new_session=True,  # Ctrl-C is for the walk
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == STARTED, "no watchman runs, so nothing is bought"
        yield process.pid
        process.stdin.write(HOME)
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        process.stdout.close()
        process.wait()


def _say(line: str) -> None:
    with suppress(OSError):  # the terminal may be gone
        print(f"watchman: {line}", file=sys.stderr, flush=True)


async def _watch(provider: str, prefix: str, within_s: float) -> int:
    try:
        async with asyncio.timeout(within_s):
            if await asyncio.to_thread(sys.stdin.buffer.readline) == HOME:
                return 0
        _say("the walk ended without a word")
    except TimeoutError:
        _say(f"the walk took longer than {within_s:.0f} s")
    clock = SystemClock()
    async with http_client_pool(clock) as dial:
        counter = counter_of(provider, os.environ, settings_in(os.environ))
        clouds = AllClouds(dial, clock, SystemEntropy(), SystemResolver())
        try:
            ended = await terminate(clouds.open(counter.source, counter.key, {}), prefix, clock, _say)
        except NotShown as error:
            _say(str(error))
            return 1
    _say(f"nothing is left; {len(ended)} terminated")
    return 0


async def _watch_and_leave(provider: str, prefix: str, within_s: float) -> None:
    """By hand: a thread may still wait for the input of a walk that hangs, and a tidy end would wait for the thread."""
    os._exit(await _watch(provider, prefix, within_s))


def main() -> None:
    for number in DEAF_TO:
        signal.signal(number, signal.SIG_IGN)
    provider, prefix, within_s = sys.argv[1:]
    sys.stdout.buffer.write(STARTED)
    sys.stdout.flush()
    asyncio.run(_watch_and_leave(provider, prefix, float(within_s)))


if __name__ == "__main__":
    main()
