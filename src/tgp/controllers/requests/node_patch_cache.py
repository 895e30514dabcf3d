"""The desired metadata of a request's Node, computed once for each version of the record and of the Node."""

from dataclasses import dataclass
from typing import Any

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.requests import node_metadata
from tgp.core.requests.node_metadata import NodeMetadata


@dataclass(slots=True)
class NodePatchCache:
    """Valid for exactly this record and this pool: both are frozen, so the same object has the same content."""

    record: KubeObject[GPURequest]
    pool: GPUNodePool | None
    metadata: NodeMetadata | None  # None: the record does not describe the machine
    _looked_at: tuple[Node, bool] | None = None
    _change: dict[str, Any] | None = None

    def patch_for(self, node: Node, *, initialized: bool) -> dict[str, Any] | None:
        """The patch to the desired metadata; None: nothing to change."""
        assert self.metadata is not None, "a Node without desired metadata is not patched"
        last = self._looked_at
        if last is None or last[0] is not node or last[1] is not initialized:
            self._looked_at = (node, initialized)
            self._change = node_metadata.metadata_patch(node, self.metadata, initialized=initialized)
        return self._change
