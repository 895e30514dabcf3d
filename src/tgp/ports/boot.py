"""How a rented machine becomes a Node: what its provider is given to start it with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.core.model.key import Key
from tgp.core.model.offer import Offer
from tgp.core.model.taints import Taint


class BootRefused(Exception):
    """No machine can be started this way; nothing was bought. `reason` is a condition's, the text says what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Birth:
    """The Node that a machine shall become."""

    request: Key
    spec: GPURequest
    node_class: GPUNodeClass
    offer: Offer
    token: str
    node_name: str
    provider_id: str  # tgp://<provider>/<token>
    expires_at: datetime  # it is given up then, as things stand; what lets it join is no use any more
    pool: str = ""  # that wrote the request; empty: a person did
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class Luggage:
    """What the machine is handed. It may hold secrets, so it shows nothing."""

    user_data: bytes = field(default=b"", repr=False)
    image: str = ""


class Boot(Protocol):
    def refuses(self, offer: Offer, node_class: GPUNodeClass) -> str:
        """Why no machine of this offer could ever be started so, known before anything is reserved; empty: it might."""
        ...

    async def pack(self, birth: Birth) -> Luggage:
        """Made anew for each attempt, before anything is paid. Raises BootRefused, or ClusterError: ask again."""
        ...

    async def discard(self, token: str) -> None:
        """The machine under this token is gone, or never came: remove what was made for it. Repeatable.

        What cannot be removed now is on record, and is removed later: nobody has to wait for it.
        """
        ...
