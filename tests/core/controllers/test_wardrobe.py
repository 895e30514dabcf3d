"""What a Node shall wear is worked out once for each version of it, and never told of another."""

from tests.core.rules.test_node_dress import a_request, an_attempt
from tgp.controllers import wardrobe as here
from tgp.controllers.wardrobe import Wardrobe
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.rules.node_dress import dress_of, mend


def a_wardrobe() -> Wardrobe:
    record = a_request()
    return Wardrobe(record, None, dress_of(record, an_attempt()))


def a_node(**rest) -> Node:
    return Node(key=Key("", "train-7"), uid="n-1", **rest)


def test_each_node_is_looked_at_for_itself():
    wardrobe = a_wardrobe()
    assert wardrobe.dress is not None
    bare, dressed = a_node(), a_node(labels=dict(wardrobe.dress.labels))

    for node in (bare, dressed, bare):
        for initialized in (False, True):
            assert wardrobe.mend(node, initialized=initialized) == mend(node, wardrobe.dress, initialized=initialized)


def test_the_same_node_is_looked_at_once(monkeypatch):
    looks = []

    def counted(*args, **how):
        looks.append(args)
        return mend(*args, **how)

    monkeypatch.setattr(here.node_dress, "mend", counted)
    wardrobe, node = a_wardrobe(), a_node()

    assert wardrobe.mend(node, initialized=False) is wardrobe.mend(node, initialized=False)
    assert len(looks) == 1
