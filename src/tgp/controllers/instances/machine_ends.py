"""Which machines are in the spend record, as far as this process wrote or read it."""

from tgp.adapters.kube.event_channel import LocalCache
from tgp.adapters.kube.store import Store
from tgp.api.resource import Resource
from tgp.controllers.requests.indexes import NODES_BY_MACHINE
from tgp.core.model.node import Node
from tgp.core.model.spend import MachineEnd, SpendEntry, end_of, month_of

MACHINE_END = Resource("tgp.io", "v1", "machineends", "MachineEnd", namespaced=False)  # never written


class MachineEnds(LocalCache[MachineEnd]):
    """Bounded by `drop_before`: of older months only those stay whose machine a Node names."""

    def __init__(self, nodes: Store[Node]) -> None:
        super().__init__(MACHINE_END)
        self._nodes = nodes
        self._since = ""  # the month before which entries were dropped

    def tell(self, entry: SpendEntry) -> None:
        """Of two lines about one machine that of the earlier month counts; of one month, the line told last."""
        end = end_of(entry, self.next_version())
        held = self.store.get(end.key)
        if held is None or (held.at != end.at and month_of(held.at) >= entry.month):
            self.store.put(end)

    def drop_before(self, month: str) -> None:
        """Looks at them once a month."""
        if month <= self._since:
            return
        self._since = month
        for end in list(self.store.values()):
            if month_of(end.at) < month and not self._nodes.by_index(NODES_BY_MACHINE, end.key.name):
                self.store.drop(end)
