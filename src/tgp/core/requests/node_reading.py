"""What is to be read from the Node of a machine: is it ours, how far is it, is it used, what should it carry?"""

import msgspec
from msgspec.structs import replace

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import Attempt
from tgp.core.model.attempts import provider_of
from tgp.core.model.gpus import resource_name
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.requests.node_metadata import NodeMetadata, cleanup_patch, desired_metadata, metadata_patch
from tgp.core.requests.node_state import idle, initialized, provider_id_of, registered, worked_until
from tgp.core.requests.observation import NodeObservation, RequestObservation
from tgp.core.requests.protection import protection_of


class NodeInput(msgspec.Struct, frozen=True):
    """What the caches show."""

    name: str  # that the machine's Node has or will have
    node: Node | None
    pods: tuple[Pod, ...]  # that are scheduled to it
    pool: GPUNodePool | None  # that created the request
    owned: bool  # a machine you own: it is switched on and off, and its Node stays


def read_node(observation: RequestObservation, attempt: Attempt, seen: NodeInput) -> NodeObservation:
    record, node = observation.record, seen.node
    provider_id = "" if seen.owned else provider_id_of(provider_of(attempt), attempt.token)
    ours = node if registered(node, seen.name, provider_id, record.created_at) else None
    read = NodeObservation(registered=ours, pods=seen.pods, leftover=None if seen.owned else ours)
    if node is None or not (ours is not None or seen.owned):
        return read
    metadata = desired_metadata(record, attempt, seen.pool)
    if seen.owned:
        patch = cleanup_patch(node, record.uid_text, metadata, observation.now)
        silent_since = None if node.ready is True else node.ready_since or node.created_at
        read = replace(
            read, leftover=node if patch is not None else None, cleanup_patch=patch, silent_since=silent_since
        )
    if ours is None or metadata is None:
        return read
    return _described(observation, attempt, replace(read, node=ours), metadata)


def _described(
    observation: RequestObservation, attempt: Attempt, read: NodeObservation, metadata: NodeMetadata
) -> NodeObservation:
    node, offer, pods = read.node, attempt.offer, read.pods
    assert node is not None, "metadata is compared with a Node"
    assert offer is not None, "an attempt with metadata has an offer"
    resource = resource_name(offer.gpu_type or "")
    complete = initialized(node, resource, offer.gpu_count or 1, metadata.startup_taints)
    was = observation.holds("Initialized") is not None
    patch = metadata_patch(node, metadata, initialized=was)
    return replace(
        read,
        initialized=(bool(complete) and patch is None) or (was and node.ready is True),
        words=complete.words
        if patch is None or not complete
        else f"Node {node.name} does not have its labels and taints yet",
        metadata_patch=patch,
        idle=idle(pods, resource) if node.ready is True else None,
        worked_until=worked_until(pods, resource, observation.now),
        protection=protection_of(observation.record, node, pods, observation.now),
    )
