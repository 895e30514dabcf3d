"""The desired metadata of a Node is computed once for each version, and never used for another."""

from tests.core.requests.test_node_metadata import a_request, an_attempt
from tgp.controllers.requests import node_patch_cache as here
from tgp.controllers.requests.node_patch_cache import NodePatchCache
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.requests.node_metadata import desired_metadata, metadata_patch


def a_wardrobe() -> NodePatchCache:
    record = a_request()
    return NodePatchCache(record, None, desired_metadata(record, an_attempt()))


def a_node(**rest) -> Node:
    return Node(key=ObjectKey("", "train-7"), uid="n-1", **rest)


def test_each_node_is_looked_at_for_itself():
    node_patches = a_wardrobe()
    assert node_patches.metadata is not None
    bare, dressed = a_node(), a_node(labels=dict(node_patches.metadata.labels))

    for node in (bare, dressed, bare):
        for initialized in (False, True):
            assert node_patches.patch_for(node, initialized=initialized) == metadata_patch(
                node, node_patches.metadata, initialized=initialized
            )


def test_the_same_node_is_looked_at_once(monkeypatch):
    looks = []

    def counted(*args, **how):
        looks.append(args)
        return metadata_patch(*args, **how)

    monkeypatch.setattr(here.node_metadata, "metadata_patch", counted)
    node_patches, node = a_wardrobe(), a_node()

    assert node_patches.patch_for(node, initialized=False) is node_patches.patch_for(node, initialized=False)
    assert len(looks) == 1
