"""Secrets by name, from the operator's own namespace and from nowhere else."""

from collections.abc import Mapping
from typing import Protocol

from tgp.core.model.secret import Secret


class Vault(Protocol):
    async def read(self, name: str) -> Mapping[str, Secret] | None:
        """The values of one Secret; None: there is no such Secret. At most a minute old.

        Raises ClusterError; `Forbidden` where our role does not let us read it. Whoever wants to be woken by a change
        asks every half hour at least.
        """
        ...
