"""Images that are kept at a provider, where it boots nothing else: fetched from an address once, by a mark.

`list` is complete or raises, as the lists of machines are. `make` sends one request; what it ends in is what `launch`
ends in: an image, a definite refusal (nothing was made), or `OutcomeUnknown`, after which one looks for the mark.
`remove` asks for the end; that it is gone already is a success. A mark is the provider's to keep and not unique there.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from tgp.core.model.secret import Secret
from tgp.core.model.source import Source


@dataclass(frozen=True, slots=True)
class Shelved:
    id: str  # what an order names
    mark: str  # as it was given; anything at all on images of others
    ready: bool  # False: it is still being fetched
    made_at: datetime | None = None  # None: not told


class ImageShelf(Protocol):
    @property
    def title(self) -> str:
        """The provider's name, as people write it."""
        ...

    async def list(self) -> tuple[Shelved, ...]:
        """Every image of the account, others' too. Raises CloudError."""
        ...

    async def make(self, mark: str, url: str) -> Shelved: ...

    async def remove(self, image_id: str) -> None: ...


class ImageShelves(Protocol):
    def open(self, source: Source, key: Secret | None) -> ImageShelf | None:
        """None: this provider boots what it has, or what the administrator gave it."""
        ...
