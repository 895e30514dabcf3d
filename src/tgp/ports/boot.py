"""How a rented machine becomes a Node: what its provider is given to start it with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import msgspec

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.taints import Taint


class BootRefused(Exception):
    """No machine can be started this way; nothing was bought. `reason` is a condition's, the text says what to do."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class BootRequest(msgspec.Struct, frozen=True):
    """The Node that a machine is to become."""

    request: ObjectKey
    spec: GPURequest
    node_class: GPUNodeClass
    offer: Offer
    token: str
    node_name: str
    provider_id: str  # tgp://<provider>/<token>
    expires_at: datetime  # the start-up timeout; join credentials need not live longer
    pool: str = ""  # the pool that wrote the request; empty: a user did
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)
    taints: tuple[Taint, ...] = ()


@dataclass(frozen=True, slots=True)
class BootPayload:
    """What the machine gets. It may hold secrets, so `repr` shows nothing."""

    user_data: bytes = field(default=b"", repr=False)
    image: str = ""


class Boot(Protocol):
    async def pack(self, boot_request: BootRequest) -> BootPayload:
        """Called for each attempt, before anything is paid. Raises BootRefused, or ClusterError: try again."""
        ...

    async def discard(self, token: str) -> None:
        """The machine of this token is gone, or was never launched: remove what was made for it. Repeatable.

        What cannot be removed now is recorded and removed later: the caller need not wait.
        """
        ...
