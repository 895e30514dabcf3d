"""How fast the demo world runs, in words."""

from datetime import timedelta

from tgp.interfaces.terminal.snapshot import age
from tgp.sim.scaled import WorldSpeed


def speed_text(pace: WorldSpeed, elapsed: float) -> str:
    """After `elapsed` seconds of real time."""
    slow = min(pace.slow_until, pace.real_until_caught_up) - elapsed
    if slow > 0:
        return f"real time for {age(timedelta(seconds=slow))}: you changed something"
    left = pace.real_until_caught_up - elapsed
    if left <= 0:
        return "real time"
    return f"{pace.factor:g}x, catches up with the present in {age(timedelta(seconds=left))}"


def world_seconds(pace: WorldSpeed, elapsed: float, wall_seconds: float) -> float:
    """How many seconds of the world pass in so many seconds of real time, from now on."""
    return pace.world(elapsed + wall_seconds) - pace.world(elapsed)
