"""How one kind differs in what it fills in and what it refuses. The base is the ordinary kind."""

from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause


class Strategy:
    def default(self, served: Served, obj: Json) -> None:
        """Fill in what decoding fills in; the writer owns these fields too."""

    def prepare_create(self, write: Write, obj: Json) -> None:
        """After decoding, before validation: what the creator cannot choose."""
        if write.served.traits.split_status:
            obj.pop("status", None)

    def prepare_update(self, write: Write, obj: Json, old: Json) -> None:
        """The same for an update, through the main resource or a subresource."""

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        """What is wrong with a new object."""
        return []

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        """What is wrong with a change."""
        return []
