"""Owners that start an evicted pod again: each time it is left alone for longer, and the owner is named."""

from datetime import UTC, datetime, timedelta

from tgp.core.budgets.recreation import OwnerEvictions
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef, Pod

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)
WEB = (OwnerRef("ReplicaSet", "web", "rs", "apps/v1", controller=True),)


def a_pod(created: datetime, owners=WEB) -> Pod:
    return Pod(key=ObjectKey("ml", "web-1"), created_at=created, owners=owners)


def test_pods_that_were_there_go_at_once_and_their_successors_at_growing_distances():
    seen, now = OwnerEvictions(), NOW
    for _ in range(2):  # two replicas, both from before
        pod = a_pod(NOW - timedelta(hours=1))
        assert seen.not_before(pod) is None
        seen.evicted(pod, now)
    assert seen.told() == ""
    waits = []
    for _ in range(8):
        successor = a_pod(now)
        due = seen.not_before(successor)
        assert due is not None
        waits.append((due - now) // timedelta(minutes=1))
        now = due
        seen.evicted(successor, now)
    assert waits == [1, 2, 4, 8, 16, 32, 60, 60]
    assert seen.told().startswith(
        "Evicted pods are created again at once by ReplicaSet web (8 times): each new pod is evicted"
    )


def test_a_pod_without_owner_or_of_another_one_does_not_wait():
    seen = OwnerEvictions()
    seen.evicted(a_pod(NOW - timedelta(hours=1)), NOW)
    seen.evicted(a_pod(NOW - timedelta(hours=1), owners=()), NOW)
    assert seen.not_before(a_pod(NOW, owners=())) is None
    other = (OwnerRef("ReplicaSet", "api", "other", "apps/v1", controller=True),)
    assert seen.not_before(a_pod(NOW, owners=other)) is None


def test_a_budget_that_opens_forgets_them():
    seen = OwnerEvictions()
    seen.evicted(a_pod(NOW - timedelta(hours=1)), NOW)
    seen.forget()
    assert seen.not_before(a_pod(NOW)) is None


def test_a_new_process_waits_the_shortest_distance_from_what_another_one_did():
    seen, before = OwnerEvictions(), a_pod(NOW - timedelta(hours=1))
    successor = a_pod(NOW + timedelta(seconds=1))
    seen.take_up((before, successor), NOW)
    assert seen.not_before(before) is None
    assert seen.not_before(successor) == NOW + timedelta(minutes=1)
    assert seen.told() == ""
