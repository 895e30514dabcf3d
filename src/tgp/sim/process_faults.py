"""Faults of processes: crashes, pauses, partitions and wrong clocks at seeded moments, until they are switched off."""

import asyncio
from collections.abc import Callable, Mapping
from contextvars import Context
from datetime import timedelta
from random import Random
from typing import Any

from tgp.sim.apiserver.faults import ApiFaults
from tgp.sim.entropy import stream
from tgp.sim.faults import OF_API_CALLS, OF_API_READS, OF_PROCESSES, Fault, Faults
from tgp.sim.loop import VirtualLoop
from tgp.sim.process import Process
from tgp.sim.router import Network
from tgp.sim.trace import RunTrace

HOUR = 3600.0
PAUSED_FOR = (0.5, 90.0)  # seconds: from a long garbage collection to a suspended machine; a lease lives 15 s
CUT_OFF_FOR = (2.0, 240.0)  # seconds: below and beyond every timeout and lease
WRONG_FOR = (60.0, 7200.0)  # seconds until the clock is set right again
JUMPS = (
    timedelta(seconds=-30),
    timedelta(seconds=30),
    timedelta(hours=-1),
    timedelta(hours=1),
    timedelta(days=-1),
    timedelta(days=1),
    None,  # it stands still
)


API_PREFIX = "api-"  # a fault of ours is the API server's own name for it, with this before it
API_SETTINGS: Mapping[Fault, Mapping[str, Any]] = {
    Fault.WATCH_LAG: {"seconds": 20.0},  # below the patience of a client that watches for silence
    Fault.STALE_LIST: {"behind": 50},  # revisions: some minutes of a busy cluster
}


def switch_on(server: ApiFaults, faults: Faults) -> None:
    """Let the API server fail as `faults` say."""
    for fault in (*OF_API_CALLS, *OF_API_READS):
        rate = faults.rate(fault)
        if rate:
            server.on(fault.removeprefix(API_PREFIX), probability=rate, **API_SETTINGS.get(fault, {}))


class ProcessFaults:
    def __init__(self, loop: VirtualLoop, network: Network, trace: RunTrace, seed: int | str) -> None:
        self._loop = loop
        self._network = network
        self._trace = trace
        self._seed = seed
        self._faults = Faults()
        self._processes: dict[str, Process] = {}
        self._timers: dict[tuple[str, Fault], asyncio.TimerHandle] = {}
        self._luck: dict[str, Random] = {}
        self.raging = False

    def begin(self, faults: Faults) -> None:
        self._faults = faults
        self.raging = True
        self._network.faults = faults
        for process in self._processes.values():
            self._threaten(process)

    def end(self) -> None:
        """No faults: every process runs, reaches every other, and has the right time."""
        self.raging = False
        self._network.faults = Faults()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._network.heal_all()
        for process in self._processes.values():
            process.resume()
            process.clock.right()

    def add(self, process: Process) -> None:
        self._processes[process.name] = process
        if self.raging:
            self._threaten(process)

    def _threaten(self, process: Process) -> None:
        for fault in OF_PROCESSES:
            self._schedule(process, fault)

    def _schedule(self, process: Process, fault: Fault) -> None:
        hourly = self._faults.rate(fault)
        if hourly and self.raging:
            delay = self._dice(process).expovariate(hourly / HOUR)
            timer = self._loop.call_later(delay, self._strike, process, fault, context=Context())
            self._timers[process.name, fault] = timer

    def _strike(self, process: Process, fault: Fault) -> None:
        self._actions(process)[fault]()
        self._schedule(process, fault)

    def _actions(self, process: Process) -> dict[Fault, Callable[[], None]]:
        return {
            Fault.CRASH: process.crash,
            Fault.PAUSE: lambda: process.pause(self._dice(process).uniform(*PAUSED_FOR)),
            Fault.PARTITION: lambda: self._cut_off(process),
            Fault.CLOCK: lambda: self._set_wrong(process),
        }

    def _cut_off(self, process: Process) -> None:
        endpoints = self._network.endpoints()
        if endpoints:
            endpoint = self._dice(process).choice(endpoints)
            self._network.partition(process.name, endpoint)
            wait = self._dice(process).uniform(*CUT_OFF_FOR)
            self._loop.call_later(wait, self._network.heal, process.name, endpoint, context=Context())

    def _set_wrong(self, process: Process) -> None:
        jump = self._dice(process).choice(JUMPS)
        self._trace.note(process.name, "clock", jump or "stands still")
        if jump is None:
            process.clock.freeze()
        else:
            process.clock.jump(jump)
        wait = self._dice(process).uniform(*WRONG_FOR)
        self._loop.call_later(wait, process.clock.right, context=Context())

    def _dice(self, process: Process) -> Random:
        found = self._luck.get(process.name)
        if found is None:
            found = self._luck[process.name] = stream(self._seed, f"storm/{process.name}")
        return found
