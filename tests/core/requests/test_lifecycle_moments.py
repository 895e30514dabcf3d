"""When a machine will be terminated: what the status says of its lifetime and its idle time."""

from datetime import datetime, timedelta

import pytest

from tests.core.requests.an_observation import NOW, a_machine, a_node, ago, an_observation, listed
from tgp.api.values import rfc3339
from tgp.core.requests.status import compute_status
from tgp.core.requests.steps import Wait

LIFE_ENDS = ago(minutes=4) + timedelta(hours=24)  # a day after it was launched
IDLE_ENDS = NOW + timedelta(minutes=30)
FOR_HALF_AN_HOUR = {"ready_at": ago(minutes=35), "idle_since": ago(minutes=25)}


def scheduled(**rest) -> str:
    observation = an_observation(a_machine(), presence=listed(), **rest)
    return compute_status(observation, Wait("", "")).parts["terminationScheduledAt"]


@pytest.mark.parametrize(
    ("seen", "ends"),
    [
        ({}, LIFE_ENDS),
        ({"node": a_node(ready=False, idle=None)}, LIFE_ENDS),
        ({"node": a_node(idle=True)}, IDLE_ENDS),
        ({"node": a_node(idle=False)}, LIFE_ENDS),
        ({"node": a_node(idle=True, protected="a pod")}, LIFE_ENDS),
        ({"node": a_node(idle=True), "status": FOR_HALF_AN_HOUR}, NOW + timedelta(minutes=5)),
        ({"node": a_node(idle=False), "status": FOR_HALF_AN_HOUR}, LIFE_ENDS),
        ({"node": a_node(idle=True), "spec": {"idle_timeout": "Never"}}, LIFE_ENDS),
        ({"node": a_node(idle=True), "spec": {"max_lifetime": "10m"}}, ago(minutes=4) + timedelta(minutes=10)),
    ],
    ids=["boots", "joins", "ready", "taken-at-once", "protected", "idle", "used-again", "never-idle", "short-life"],
)
def test_idle_time_counts_from_the_moment_it_is_ready_and_only_while_no_pod_uses_it(seen: dict, ends: datetime):
    """The status that says Ready says it: it never shows a day where half an hour is left."""
    assert scheduled(**seen) == rfc3339(ends)
