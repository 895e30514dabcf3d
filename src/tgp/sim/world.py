"""The simulated world: a network, processes that may die, servers they talk to, and checkers that look at every step.

    with World(seed, faults=ALL) as world:
        world.process("operator", main)
        world.watch(one_machine_per_request)
        world.run(hours=6)   # with faults: safety
        world.calm()
        world.run(hours=2)   # without faults: it must converge

A failure prints the seed, which is all it takes to see it again.
"""

import asyncio
import gc
import logging
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from types import TracebackType
from typing import Any, Self, TypeAlias, TypeVar

from tgp.ports.http import Handler, Http
from tgp.sim.apiserver import ApiServer
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.clock import HostClock, WorldClock
from tgp.sim.cluster.control_plane import ControlPlane
from tgp.sim.compute import InlineCompute
from tgp.sim.entropy import SeededEntropy, stream
from tgp.sim.exec import ScriptedExec
from tgp.sim.faults import NONE, Faults
from tgp.sim.loop import VirtualLoop
from tgp.sim.loop import close as close_loop
from tgp.sim.plans import Effect, FaultPlan
from tgp.sim.process import Host, Main, Process
from tgp.sim.process_faults import ProcessFaults, switch_on
from tgp.sim.resolver import TableResolver
from tgp.sim.router import Latency, Network
from tgp.sim.trace import RunTrace

T = TypeVar("T")
# seconds: no two hosts have been up equally long, so that code cannot compare boot clocks
BOOTED_AGO = (1_000.0, 1_000_000.0)


# turns of the loop: a few hours of one operator. Without faults there are no cycles, with faults 25 MB
COLLECT_EVERY = 100_000
KUBERNETES = "kubernetes"  # the endpoint that the API server is mounted at


@dataclass(frozen=True, slots=True)
class Kubernetes:
    api: ApiServer
    cluster: ControlPlane


class WentWrong(AssertionError):
    """An unexpected failure inside the simulation: an error-level log line, or a process that raised."""


class World:
    """`seed` decides everything: faults, latencies, restarts, names. Close it, or use it as a context manager."""

    def __init__(self, seed: int | str, *, faults: Faults = NONE, plan: FaultPlan | None = None) -> None:
        self.seed = seed
        self.faults = faults
        self.loop = VirtualLoop(seed if faults.shuffled else None)
        self.trace = RunTrace(self.loop.time)
        self.clock = WorldClock(self.loop)
        self.network = Network(self.loop, self.trace, seed)
        self.network.plan = plan
        self.compute = InlineCompute()
        self.resolver = TableResolver()
        self.exec = ScriptedExec()
        self.processes: dict[str, Process] = {}
        self.history: Counter[str] = Counter()
        """How often each object came and went (`created pods default/x`): runs that should do the same agree here."""
        self._kubernetes: Kubernetes | None = None
        self._process_faults = ProcessFaults(self.loop, self.network, self.trace, seed)
        self._checkers: list[Checker] = []
        self._seen = 0
        self._wrong: list[BaseException] = []
        self._ears = _Ears(self._wrong)
        self._turns = 0
        self.loop.after_turn = self._after_turn
        self.loop.set_exception_handler(self._unhandled)
        if faults != NONE:
            self.start_faults()

    # Who lives in it.

    def luck(self, name: str) -> Random:
        """A separate random stream for each name."""
        return stream(self.seed, name)

    @property
    def api(self) -> ApiServer:
        """The API server, created at first use. Processes reach it as `KUBERNETES`."""
        return self._found_kubernetes().api

    @property
    def cluster(self) -> ControlPlane:
        """The scheduler, the controllers, and machines to switch on and off."""
        return self._found_kubernetes().cluster

    def _found_kubernetes(self) -> Kubernetes:
        if self._kubernetes is None:
            api = ApiServer(self.clock, SeededEntropy(self.seed, "apiserver"))
            cluster = ControlPlane(api.core, self.luck("cluster"), self.loop)
            self._kubernetes = Kubernetes(api, cluster)
            api.core.hooks.append(self._note_commit)
            self.mount(KUBERNETES, api.handle)
            if self._process_faults.raging:
                switch_on(api.faults, self.faults)
        return self._kubernetes

    def _note_commit(self, served: Served, before: Json | None, after: Json | None) -> None:
        obj = after if after is not None else before
        assert obj is not None, "a commit is about something"
        meta = obj["metadata"]
        name = f"{served.storage} {meta.get('namespace', '')}/{meta['name']}"
        if before is None or after is None:
            self.history[f"{'created' if before is None else 'deleted'} {name}"] += 1
        self.trace.note("api", "commits", name, meta["uid"], "gone" if after is None else meta["resourceVersion"])

    def mount(self, name: str, handler: Handler, latency: Latency | None = None) -> None:
        """A server that processes reach by `host.http(name)`."""
        self.network.mount(name, handler, latency)

    def http(self, host: Host, endpoint: str) -> Http:
        if endpoint == KUBERNETES:
            self._found_kubernetes()
        return self.network.http(host, endpoint, host.clock)

    def visitor(self, endpoint: str) -> Http:
        """A way in for the test itself: the network does it no harm (the API server's own faults do)."""
        if endpoint == KUBERNETES:
            self._found_kubernetes()
        return self.network.http(None, endpoint, self.clock)

    def process(self, name: str, main: Main, *, restarts: bool = True) -> Process:
        """Start a process now. When it ends or dies it is started again, unless `restarts` is False."""
        assert name not in self.processes, f"{name} lives here already"
        clock = HostClock(self.clock, booted_ago=self.luck(f"{name}/boot").uniform(*BOOTED_AGO))
        process = Process(name, main, loop=self.loop, doors=self, clock=clock, seed=self.seed, trace=self.trace)
        process.restarts = restarts
        process.on_failure = self._process_failed
        self.processes[name] = process
        self._process_faults.add(process)
        process.start()
        return process

    def watch(self, *checkers: "Checker") -> None:
        """Have each look at the world after every step in which something happened; an AssertionError ends the run."""
        self._checkers.extend(checkers)

    # What passes in it.

    def start_faults(self) -> None:
        """Inject faults from now on, as `faults` say."""
        self._process_faults.begin(self.faults)
        if self._kubernetes is not None:
            switch_on(self._kubernetes.api.faults, self.faults)

    def calm(self) -> None:
        """No injected faults from now on: what still fails is the operator's fault."""
        self._process_faults.end()
        if self._kubernetes is not None:
            self._kubernetes.api.faults.off()

    def run(self, *, hours: float = 0, minutes: float = 0, seconds: float = 0) -> None:
        """Let so much virtual time pass."""
        self.until(asyncio.sleep(hours * 3600 + minutes * 60 + seconds))

    def until(self, deed: Coroutine[Any, Any, T]) -> T:
        """Let time pass until `deed`, something the test itself does, is done."""
        with _Attention(self._ears, self._say_seed):
            answer = self.loop.run_until_complete(deed)
            self._look()
        return answer

    @property
    def effects(self) -> list[Effect]:
        """Every changing call that processes set out to send, in order."""
        return self.network.effects

    def close(self) -> None:
        for process in self.processes.values():
            process.stop()
        close_loop(self.loop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self._say_seed(error)
        self.close()

    # What goes wrong in it.

    def _after_turn(self) -> None:
        self._turns += 1
        if self._turns % COLLECT_EVERY == 0:
            gc.collect()
        if self._wrong or (self._checkers and self.trace.length != self._seen):
            self._look()

    def _look(self) -> None:
        if self._wrong:
            raise WentWrong(str(self._wrong[0])) from self._wrong[0]
        if self._checkers and self.trace.length != self._seen:
            self._seen = self.trace.length
            for check in self._checkers:
                check(self)

    def _process_failed(self, name: str, error: BaseException) -> None:
        error.add_note(f"process {name} ended with it")
        self._wrong.append(error)

    def _unhandled(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self._wrong.append(context.get("exception") or WentWrong(context["message"]))

    def _say_seed(self, error: BaseException) -> None:
        note = f"SEED={self.seed} at {self.loop.time():.3f} s of virtual time"
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
            sys.stderr.write(f"SEED={self.seed}\n")


Checker: TypeAlias = Callable[[World], None]


class _Attention:
    """While virtual time passes: log lines are heard, nothing is collected by chance, and a failure names its seed."""

    def __init__(self, ears: logging.Handler, say_seed: Callable[[BaseException], None]) -> None:
        self._ears = ears
        self._say_seed = say_seed
        self._collecting = gc.isenabled()

    def __enter__(self) -> None:
        logging.getLogger().addHandler(self._ears)
        gc.disable()  # what a collection ends (an async generator in a cycle) must end at the same turn in every run

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        logging.getLogger().removeHandler(self._ears)
        if self._collecting:
            gc.enable()
        if error is not None:
            self._say_seed(error)


class _Ears(logging.Handler):
    """An error-level log line fails the simulation."""

    def __init__(self, wrong: list[BaseException]) -> None:
        super().__init__(logging.ERROR)
        self._wrong = wrong

    def emit(self, record: logging.LogRecord) -> None:
        error = WentWrong(f"an error was logged by {record.name}: {record.getMessage()}")
        if record.exc_info:
            error.__cause__ = record.exc_info[1]
        self._wrong.append(error)
