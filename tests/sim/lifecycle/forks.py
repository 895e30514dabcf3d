"""Tries every plan of a workload, each from the moment at which it strikes: what came before is the same for all.

A process is copied (fork) at each side effect that is worth it: the copy lives through the plan and reports, the
original goes on without a fault. A plan that fails here fails in the same way when it is run alone from the beginning,
since a world is nothing but its seed.
"""

import asyncio
import os
import pickle
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from tgp.ports.http import Call
from tgp.sim.plans import Act, FaultPlan
from tgp.sim.process import Host
from tgp.sim.router import Network


@dataclass(frozen=True, slots=True)
class Tried:
    plan: FaultPlan
    gist: str
    failure: str  # empty: all went well
    result: Any = None


class Forks:
    """Installed on a network before its workload is played."""

    def __init__(self, worth: Callable[[str], Iterable[Act]], gist: Callable[[str, Call], str]) -> None:
        self.tried: list[Tried] = []
        self._worth = worth
        self._gist = gist
        self._report: int | None = None  # in a copy: where to report
        self.plan: FaultPlan | None = None  # in a copy: what strikes

    def install(self, network: Network) -> None:
        count = network.count_effect

        def forking(host: Host, endpoint: str, call: Call) -> FaultPlan | None:
            plan = count(host, endpoint, call)
            if self._report is not None:
                return plan
            effect = network.effects[-1]
            gist = self._gist(endpoint, call)
            for act in self._worth(gist):
                loop = asyncio.get_running_loop()
                if self._copy(FaultPlan(effect.process, effect.number, act), gist):
                    asyncio._set_running_loop(loop)  # it is remembered by process id
                    network.trace.note(effect.process, "aimed", act, effect.number)
                    return self.plan
            return plan

        network.count_effect = forking  # type: ignore[method-assign]  # it only listens, and strikes

    def _copy(self, plan: FaultPlan, gist: str) -> bool:
        """True in the copy. The original waits for its report, so that one core is used at a time."""
        reading, writing = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        if (child := os.fork()) == 0:
            os.close(reading)
            self._report, self.plan = writing, plan
            return True
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        os.waitpid(child, 0)
        failure, result = pickle.loads(told) if told else ("the copy ended without a word", None)  # noqa: S301 - ours
        self.tried.append(Tried(plan, gist, failure, result))
        return False

    def finish(self, play: Callable[[], Any]) -> Any:
        """Play to the end. A copy reports and is gone; the original gets its result."""
        try:
            result, failure = play(), ""
        except BaseException as error:
            if self._report is None:
                raise
            result, failure = None, "".join(traceback.format_exception(error))
        if self._report is not None:
            self._leave(failure, result)
        return result

    def _leave(self, failure: str, result: Any) -> NoReturn:
        """Always: a forked copy that went on would run every test that comes after this one."""
        assert self._report is not None
        try:
            with os.fdopen(self._report, "wb") as pipe:
                pickle.dump((failure, result), pipe)
            sys.stdout.flush()
        finally:
            os._exit(0)
