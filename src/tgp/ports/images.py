"""Images stored at a provider that boots nothing else: imported from a URL once, identified by a mark.

`list` is complete or raises, as the lists of machines are. `make` sends one request; its outcomes are those of
`launch`: an image, a definite refusal (nothing was made), or `OutcomeUnknown`; then the caller searches for the mark.
`remove` deletes; an already deleted image is a success. The provider stores the mark and does not keep it unique.
"""

from datetime import datetime
from typing import Protocol

import msgspec


class StoredImage(msgspec.Struct, frozen=True):
    id: str  # as used in an order
    mark: str  # as written by us; any text on images of others
    ready: bool  # False: the import is still running
    made_at: datetime | None = None  # None: unknown


class ImageStore(Protocol):
    @property
    def title(self) -> str:
        """The provider's display name."""
        ...

    async def list(self) -> tuple[StoredImage, ...]:
        """Every image of the account, including foreign ones. Raises CloudError."""
        ...

    async def make(self, mark: str, url: str) -> StoredImage: ...

    async def remove(self, image_id: str) -> None: ...
