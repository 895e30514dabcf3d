"""Short histories that a careful operator survives: each aims at one part of the launch protocol.

    python -m tests.sim.mutants.histories lost-answer 1

Every invariant is watched; what a history adds of its own is an `assert`. Ends with 0 where every promise was kept,
with 1 and the promise where one was broken, and in any other way where something else went wrong.
"""

import sys
from collections.abc import Callable

from tests.sim.mutants.account_histories import ACCOUNTS
from tests.sim.mutants.budget_histories import BUDGETS
from tests.sim.mutants.joining_histories import JOINING
from tests.sim.mutants.limit_histories import LIMITS
from tests.sim.mutants.lost_state_histories import LOST_STATE
from tests.sim.mutants.lying_histories import LYING
from tests.sim.mutants.moving_histories import MOVING
from tests.sim.mutants.order_histories import ORDERS
from tests.sim.mutants.pool_histories import POOLS
from tests.sim.mutants.power_histories import POWER
from tests.sim.mutants.team_histories import TEAMS
from tests.sim.mutants.view_histories import VIEWS
from tgp.sim.checkers.recorder import Violation

PROMISE_BROKEN = 1
HISTORIES: dict[str, Callable[[str], None]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        *ORDERS,
        *LIMITS,
        *VIEWS,
        *LOST_STATE,
        *ACCOUNTS,
        *JOINING,
        *LYING,
        *POOLS,
        *POWER,
        *MOVING,
        *BUDGETS,
        *TEAMS,
    )
}


def main(name: str, seed: str) -> int:
    try:
        HISTORIES[name](seed)
    except Violation as error:
        print(str(error).splitlines()[0])
        return PROMISE_BROKEN
    except AssertionError as error:
        if type(error) is not AssertionError:
            raise  # a simulation that went wrong proves nothing about promises
        print(str(error).splitlines()[0] if str(error) else "what the history asks for did not come true")
        return PROMISE_BROKEN
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
