"""How fast a world runs, for people."""

from datetime import timedelta

from tgp.sim.scaled import Pace
from tgp.surfaces.terminal.scene import age


def pace_in_words(pace: Pace, elapsed: float) -> str:
    """As it is after so many seconds on the wall."""
    slow = min(pace.slow_until, pace.real_until_caught_up) - elapsed
    if slow > 0:
        return f"real time for {age(timedelta(seconds=slow))}: you changed something"
    left = pace.real_until_caught_up - elapsed
    if left <= 0:
        return "as fast as your clock"
    return f"{pace.factor:g}x, catches up with the present in {age(timedelta(seconds=left))}"


def world_seconds(pace: Pace, elapsed: float, wall_seconds: float) -> float:
    """How much of the world passes in so much wall time, begun now."""
    return pace.world(elapsed + wall_seconds) - pace.world(elapsed)
