"""What the Node of a request shall wear, worked out once for each version of the record and of the Node."""

from dataclasses import dataclass
from typing import Any

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.model.node import Node
from tgp.core.model.typed import Typed
from tgp.core.rules import node_dress
from tgp.core.rules.node_dress import Dress


@dataclass(slots=True)
class Wardrobe:
    """Good for exactly this record and this pool: both are frozen, so that the same object says the same."""

    record: Typed[GPURequest]
    pool: GPUNodePool | None
    dress: Dress | None  # None: the record does not say what the machine is
    _looked_at: tuple[Node, bool] | None = None
    _change: dict[str, Any] | None = None

    def mend(self, node: Node, *, initialized: bool) -> dict[str, Any] | None:
        """The patch that makes the Node look as it shall; None: it does."""
        assert self.dress is not None, "who has none is left as it is"
        last = self._looked_at
        if last is None or last[0] is not node or last[1] is not initialized:
            self._looked_at = (node, initialized)
            self._change = node_dress.mend(node, self.dress, initialized=initialized)
        return self._change
