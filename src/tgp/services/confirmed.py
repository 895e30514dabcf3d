"""What the user confirmed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The user agreed that exactly these machines of this cluster are terminated."""

    cluster: str  # the cluster id
    machines: frozenset[tuple[str, str]]  # account access, and the provider's instance id
