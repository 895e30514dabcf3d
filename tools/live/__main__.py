"""`make test-live PROVIDER=… MAX_USD=1`: says what it would do; with YES=1 it does it."""

import asyncio
import os
import signal
import sys

from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.resolver import SystemResolver
from tools.live.asked import Asked, Refusal, read
from tools.live.cluster import Ways, on_loopback
from tools.live.termination import NotShown
from tools.live.walk import WALK_WITHIN, WalkFailed, walk
from tools.live.watchman import watchman

REFUSED = 2


def say(line: str) -> None:
    print(line, flush=True)


async def _walk(asked: Asked) -> None:
    clock = SystemClock()
    async with http_client_pool(clock) as dial:
        ways = Ways(clock, SystemEntropy(), dial, SystemResolver(), serve=lambda handler: on_loopback(handler, clock))
        walking = asyncio.create_task(
            walk(asked, ways, lambda prefix: watchman(asked.provider, prefix, WALK_WITHIN.total_seconds()), say)
        )
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, walking.cancel)  # it gives back first
        await walking


def main() -> int:
    try:
        asyncio.run(_walk(read(os.environ)))
    except Refusal as error:
        print(error, file=sys.stderr)
        return REFUSED
    except (WalkFailed, NotShown) as error:
        print(f"✗ {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
