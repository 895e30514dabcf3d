"""Secrets by name, from the operator's own namespace only."""

from collections.abc import Mapping
from typing import Protocol

from tgp.core.model.secret import Secret


class SecretReader(Protocol):
    async def read(self, name: str) -> Mapping[str, Secret] | None:
        """The values of one Secret; None: there is no such Secret. At most a minute old.

        Raises ClusterError; `Forbidden` where our role does not let us read it. A caller that wants to be woken by a
        change reads the Secret at least every half hour.
        """
        ...
