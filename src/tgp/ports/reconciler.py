"""What the runtime needs of a controller."""

from datetime import datetime, timedelta
from typing import Protocol

from tgp.core.model.object_key import ObjectKey

SOON = timedelta(0)  # from now: at once, as soon as the view shows what was written


class Reconciler(Protocol):
    async def reconcile(self, key: ObjectKey) -> datetime | None:
        """Take one step for `key`; return when to look again, or None for 'when something changes'.

        Never sleeps, may be cancelled at any await, and is never run twice at once for one key. An exception means:
        back off and try again.
        """
        ...
