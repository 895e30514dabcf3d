"""How many functions of ours lie between a watch event and the launch call, counted in one simulated request.

Two stretches: the calls by which the event that makes the request launch comes into the queue, one inside the other;
and every function that the reconcile enters from there on, each once, until the provider is called. The simulated world
itself is not counted.
"""

import asyncio
import sys
from dataclasses import dataclass, field
from types import CodeType, FrameType

from tests.sim.an_operator import ALONE, a_class, operator_main
from tests.sim.lifecycle.a_world import sim_env
from tools.steps import ROOT

OURS = f"{ROOT / 'src' / 'tgp'}/"
NOT_OURS = f"{OURS}sim/"
REQUEST = "train"
REFLECTOR = f"{OURS}adapters/kube/reflector.py"
QUEUE, RECONCILER = f"{OURS}adapters/kube/queue.py", f"{OURS}controllers/requests/reconciler.py"
LAUNCH = f"{OURS}adapters/clouds/simulated/client.py"
MOST_HOURS = 1


@dataclass
class HopCounter:
    """For `sys.setprofile`."""

    launched: bool = False
    depth: int = 0  # of the launch call: functions that wait for it
    _queued: set[CodeType] = field(default_factory=set)  # of the last event
    _reconciled: dict[object, set[CodeType]] = field(default_factory=dict)  # by task: since its reconcile began
    _frames: dict[object, FrameType] = field(default_factory=dict)  # of that reconcile
    path: set[CodeType] = field(default_factory=set)

    @property
    def hops(self) -> int:
        return len(self.path)

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event != "call" or self.launched or not counted(code):
            return
        if code.co_name == "add" and code.co_filename == QUEUE and _about_the_request(frame):
            found = chain(frame)
            if any(each.co_filename == REFLECTOR for each in found):  # not by a timer
                self._queued = found
        task = _task()
        if code.co_name == "reconcile" and code.co_filename == RECONCILER and frame is not self._frames.get(task):
            self._frames[task] = frame  # a coroutine that goes on is called again, in the same frame
            self._reconciled[task] = set()
        if task in self._reconciled:
            self._reconciled[task].add(code)
            if code.co_name == "launch" and code.co_filename == LAUNCH:
                self.path = self._queued | self._reconciled[task]
                self.depth = len(chain(frame))
                self.launched = True


def counted(code: CodeType) -> bool:
    """A function of ours; no lambda and no comprehension."""
    return code.co_filename.startswith(OURS) and not code.co_filename.startswith(NOT_OURS) and code.co_name[0] != "<"


def chain(frame: FrameType | None) -> set[CodeType]:
    found = set()
    while frame is not None:
        if counted(frame.f_code):
            found.add(frame.f_code)
        frame = frame.f_back
    return found


def _about_the_request(frame: FrameType) -> bool:
    return getattr(frame.f_locals.get("key"), "name", "") == REQUEST


def _task() -> object:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def hops() -> HopCounter:
    with sim_env("hops", "simulated", invariants=()) as env:
        a_class(env.world, "any", providers=[{"name": "simulated"}])
        env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=5)
        counter = HopCounter()
        sys.setprofile(counter)
        try:
            env.wants(REQUEST)
            for _ in range(MOST_HOURS * 60):
                env.world.run(minutes=1)
                if counter.launched:
                    break
        finally:
            sys.setprofile(None)
    assert counter.launched, "the request was not launched"
    return counter


if __name__ == "__main__":
    counted_hops = hops()
    print(f"{counted_hops.hops} functions entered, {counted_hops.depth} deep")
