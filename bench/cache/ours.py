"""Our side: the production path from socket to reconciler, in a process of its own.

Speaks the same way as the peer: one JSON line when the list is in and every key had its turn, then for each number on
its standard input one more when so many changes had theirs.
"""

import asyncio
import ctypes
import gc
import json
import resource
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.client import HttpClient
from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.adapters.kube.index import by_label, by_namespace, by_node, by_phase
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import pods
from tgp.adapters.kube.reflector import Reflector
from tgp.adapters.kube.runtime import Runtime, RuntimeDeps
from tgp.adapters.kube.store import Store
from tgp.api.resource import POD
from tgp.core.model.facts import Fact
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod

LABEL = "app.kubernetes.io/name"
LOOK_EVERY = 0.005  # seconds, as often as the peer looks


class Looker:
    """The reconciler of the bench: finds its pod, as the peer's worker does."""

    def __init__(self, store: Store[Pod]) -> None:
        self._store = store
        self.turns = 0
        self.found = 0

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        self.turns += 1
        if self._store.get(key) is not None:
            self.found += 1
        return None


class Quiet:
    def note(self, fact: Fact) -> None:
        print(fact, file=sys.stderr)


async def measure(url: str, *, streaming: bool) -> None:
    clock, entropy = SystemClock(), SystemEntropy()
    http = HttpClient(url, clock)
    store: Store[Pod] = Store(
        POD, {"namespace": by_namespace, "node": by_node, "phase": by_phase, "label": by_label(LABEL)}
    )
    changes = 0

    def count(old: Pod | None, new: Pod | None) -> None:
        nonlocal changes
        if old is not None and new is not None:
            changes += 1

    looker = Looker(store)
    reflector = Reflector(http, ListTarget(pods()), store, entropy, Quiet(), streaming=streaming)
    controller = Controller("pods", looker, (WatchSource(store),), workers=1)
    runtime = Runtime([reflector], [controller], RuntimeDeps(clock, entropy, Quiet()))
    store.subscribe(count)
    queue = runtime.loops[0].queue

    began = Phase()
    running = asyncio.create_task(runtime.run(_leading(), settled=_freeze))
    await _until(lambda: store.synced and not queue and looker.turns >= len(store), running)
    await began.report("list", pods=len(store))
    numbers = await _input()
    while line := await numbers.readline():
        wanted = changes + int(line)
        began = Phase()
        await _until(lambda wanted=wanted: changes >= wanted and not queue, running)  # type: ignore[misc]
        await began.report("event")
    runtime.stop()
    await running
    await http.close()


async def _leading() -> None:
    """Held from the start."""


def _freeze() -> None:
    gc.collect()
    gc.freeze()


async def _until(true: Callable[[], bool], running: asyncio.Task[None]) -> None:
    while not true():
        if running.done():
            running.result()
        await asyncio.sleep(LOOK_EVERY)


async def _input() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


class Phase:
    def __init__(self) -> None:
        self._began = asyncio.get_running_loop().time()
        self._spent = _cpu()

    async def report(self, name: str, **more: int) -> None:
        said: dict[str, float] = {
            f"{name}_seconds": asyncio.get_running_loop().time() - self._began,
            f"{name}_cpu_seconds": _cpu() - self._spent,
            **more,
        }
        await asyncio.sleep(1)
        said["natural_mib"] = _memory("VmRSS:")
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        said["settled_mib"], said["peak_mib"] = _memory("VmRSS:"), _memory("VmHWM:")
        print(json.dumps(said), flush=True)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))


if __name__ == "__main__":
    asyncio.run(measure(sys.argv[-1], streaming="--pages" not in sys.argv))
