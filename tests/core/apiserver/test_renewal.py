"""The short way for a Lease's renewal ends exactly where the long way does."""

from datetime import timedelta

import msgspec
import pytest

from tgp.api.resource import LEASE
from tgp.ports.http import Call, json_call
from tgp.sim.apiserver.patch import dispatch
from tgp.sim.world import KUBERNETES, World

PATH = LEASE.path("default")
HEADERS = (("Content-Type", "application/merge-patch+json"), ("User-Agent", "tgp/1"))
FIRST = {
    "holderIdentity": "one",
    "leaseDurationSeconds": 15,
    "acquireTime": "2026-01-05T09:00:00.000000Z",
    "renewTime": "2026-01-05T09:00:00.000000Z",
    "leaseTransitions": 0,
}
PATCHES = {
    "a renewal": {"spec": {**FIRST, "renewTime": "2026-01-05T09:00:02.000001Z"}},
    "only the time": {"spec": {"renewTime": "2026-01-05T09:00:02.000001Z"}},
    "the same again": {"spec": FIRST},
    "a takeover": {"spec": {**FIRST, "holderIdentity": "two", "leaseTransitions": 1}},
    "a bad time": {"spec": {**FIRST, "renewTime": "2026-01-05T09:00:02Z"}},
    "another zone": {"spec": {**FIRST, "renewTime": "2026-01-05T10:00:02.000001+01:00"}},
    "no such time": {"spec": {**FIRST, "renewTime": "2026-13-45T09:00:02.000001Z"}},
    "an old version": {"metadata": {"resourceVersion": "1"}, "spec": {"renewTime": "2026-01-05T09:00:02.000001Z"}},
    "another uid": {"metadata": {"uid": "x"}, "spec": {"renewTime": "2026-01-05T09:00:02.000001Z"}},
    "a label beside it": {"metadata": {"labels": {"a": "b"}}, "spec": {"renewTime": "2026-01-05T09:00:02.000001Z"}},
    "an unknown field": {"spec": {"renewTime": "2026-01-05T09:00:02.000001Z", "mood": "good"}},
    "something removed": {"spec": {"renewTime": "2026-01-05T09:00:02.000001Z", "leaseTransitions": None}},
    "no object": {"spec": 5},
}


def answers(patch: object) -> list[tuple[int, object]]:
    """What a Lease's holder, another writer and a reader are told, one after the other."""
    with World("renewal") as world:
        door = world.visitor(KUBERNETES)

        def ask(call: Call) -> tuple[int, object]:
            reply = world.until(door.send(call))
            world.run(seconds=2)
            return reply.status, reply.json()

        made = json_call("POST", PATH, {"metadata": {"name": "x"}, "spec": FIRST}, timeout=timedelta(seconds=5))
        made = Call(made.method, made.path, headers=(*made.headers, HEADERS[1]), body=made.body)
        body = msgspec.json.encode(patch)
        mine = Call("PATCH", f"{PATH}/x", headers=HEADERS, body=body)
        other = Call("PATCH", f"{PATH}/x", headers=(HEADERS[0], ("User-Agent", "kubectl/1")), body=body)
        return [ask(call) for call in (made, mine, other, Call("GET", f"{PATH}/x"))]


@pytest.mark.parametrize("patch", PATCHES.values(), ids=PATCHES)
def test_both_ways_lead_to_the_same_lease(patch, monkeypatch):
    short = answers(patch)
    monkeypatch.setattr(dispatch, "renewal", lambda _write, _sent: None)

    assert short == answers(patch)


def test_a_renewal_takes_the_short_way(monkeypatch):
    taken = []
    short = dispatch.renewal
    monkeypatch.setattr(dispatch, "renewal", lambda *asked: taken.append(short(*asked)) or taken[-1])
    answers(PATCHES["a renewal"])

    assert taken[0] is not None
    assert taken[1] is None, "another writer's goes the long way"
