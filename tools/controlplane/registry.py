"""An OCI registry on loopback, in memory, for charts: `helm push tgp.tgz {registry.charts} --plain-http`."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tools import toolbox
from tools.controlplane.component import Component, ControlPlaneFailed, Program
from tools.controlplane.plane import quiet_environment
from tools.toolbox.cache import Say
from tools.toolbox.find import say_on_stderr

START_BOUND_S = 30
STOP_PATIENCE_S = 5
POLL_S = 0.05
LISTENING = "serving on port "  # what it prints once it listens


@dataclass(frozen=True, slots=True)
class Registry:
    port: int

    @property
    def charts(self) -> str:
        """Where charts are pushed to; a chart's own name follows when it is installed. It speaks plain HTTP."""
        return f"oci://127.0.0.1:{self.port}/charts"


@contextmanager
def a_registry(log: Path, say: Say = say_on_stderr) -> Iterator[Registry]:
    """Empty, until the end of the `with`."""
    program = Program("registry", (str(toolbox.find(toolbox.OCI_REGISTRY, say=say)), "-port", "0"))
    running = Component(program, log, quiet_environment())
    try:
        yield Registry(_port(running))
    finally:
        running.stop(STOP_PATIENCE_S)


def _port(running: Component) -> int:
    give_up_at = time.monotonic() + START_BOUND_S
    while not running.said(LISTENING):
        running.must_live()
        if time.monotonic() > give_up_at:
            raise ControlPlaneFailed(f"The registry does not listen after {START_BOUND_S} s. {running.tail()}")
        time.sleep(POLL_S)
    return int(running.log.read_text().partition(LISTENING)[2].split()[0])
