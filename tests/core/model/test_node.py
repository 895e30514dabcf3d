"""A Node that says again what it said is no news."""

from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey


def a_node(version, **rest):
    return Node(key=ObjectKey("", "n-1"), uid="u", resource_version=version, **rest)


def test_a_heartbeat_repeats_what_was_known():
    assert a_node(2, ready=True).repeats(a_node(1, ready=True))


def test_whatever_is_looked_at_is_news():
    assert not a_node(2, ready=False).repeats(a_node(1, ready=True))
    assert not a_node(2, labels={"a": "b"}).repeats(a_node(1))
    assert not a_node(1).repeats(None)
