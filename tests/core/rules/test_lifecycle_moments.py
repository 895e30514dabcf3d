"""When a machine is given back as things stand: what its status says of its life and its idle time."""

from datetime import datetime, timedelta

import pytest

from tests.core.rules.a_sight import NOW, a_machine, a_node, a_sight, ago, listed
from tgp.api.values import rfc3339
from tgp.core.rules.lifecycle_words import tell
from tgp.core.rules.steps import Rest

LIFE_ENDS = ago(minutes=4) + timedelta(hours=24)  # a day after it was launched
IDLE_ENDS = NOW + timedelta(minutes=30)
FOR_HALF_AN_HOUR = {"ready_at": ago(minutes=35), "idle_since": ago(minutes=25)}


def scheduled(**rest) -> str:
    sight = a_sight(a_machine(), presence=listed(), **rest)
    return tell(sight, Rest("", "")).parts["terminationScheduledAt"]


@pytest.mark.parametrize(
    ("seen", "ends"),
    [
        ({}, LIFE_ENDS),
        ({"node": a_node(ready=False, idle=None)}, LIFE_ENDS),
        ({"node": a_node(idle=True)}, IDLE_ENDS),
        ({"node": a_node(idle=False)}, LIFE_ENDS),
        ({"node": a_node(idle=True, protected="somebody")}, LIFE_ENDS),
        ({"node": a_node(idle=True), "status": FOR_HALF_AN_HOUR}, NOW + timedelta(minutes=5)),
        ({"node": a_node(idle=False), "status": FOR_HALF_AN_HOUR}, LIFE_ENDS),
        ({"node": a_node(idle=True), "spec": {"idle_timeout": "Never"}}, LIFE_ENDS),
        ({"node": a_node(idle=True), "spec": {"max_lifetime": "10m"}}, ago(minutes=4) + timedelta(minutes=10)),
    ],
    ids=["boots", "joins", "ready", "taken-at-once", "protected", "idle", "used-again", "never-idle", "short-life"],
)
def test_idle_time_counts_from_the_moment_it_is_ready_and_only_while_nobody_uses_it(seen: dict, ends: datetime):
    """The very word that says Ready says it: nobody reads a day there who has half an hour."""
    assert scheduled(**seen) == rfc3339(ends)
