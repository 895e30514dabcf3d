"""Owners that start an evicted pod again at once: its successors are evicted at growing distances.

Without a rule at admission nothing stops a Deployment from creating the same pod again. To evict that within a second,
again and again, would stop nothing, and hurt the API server.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from tgp.core.budgets.spans import seconds
from tgp.core.model.backoff import doubled
from tgp.core.model.pod import Pod

FIRST_PAUSE, LONGEST_PAUSE = timedelta(minutes=1), timedelta(hours=1)
NAMES_SHOWN = 3


class EvictedOwner(msgspec.Struct, frozen=True):
    name: str  # such as "ReplicaSet web"
    at: datetime  # of the last eviction
    again: int = 0  # successors that were evicted


@dataclass(slots=True)
class OwnerEvictions:
    """Of one budget, as long as it is used up. A new process begins with the shortest distance."""

    _owners: dict[str, EvictedOwner] = field(default_factory=dict)  # by uid

    def evicted(self, pod: Pod, now: datetime) -> None:
        owner = pod.controller
        if owner is None:
            return
        again = self._owners[owner.uid].again + 1 if self._is_successor(pod) else 0
        before = self._owners.get(owner.uid)
        if before is not None:
            again = max(again, before.again)
        self._owners[owner.uid] = EvictedOwner(f"{owner.kind} {owner.name}", now, again)

    def not_before(self, pod: Pod) -> datetime | None:
        """When it may be evicted, as the successor of one that was; None: at any time."""
        if not self._is_successor(pod):
            return None
        owner = self._owners[pod.controller.uid if pod.controller is not None else ""]
        return owner.at + doubled(FIRST_PAUSE, owner.again + 1, LONGEST_PAUSE)

    def forget(self) -> None:
        """The budget is open."""
        self._owners.clear()

    def told(self) -> str:
        """Which owners do so, and what to set; empty: none."""
        names = sorted(f"{each.name} ({each.again} times)" for each in self._owners.values() if each.again)
        if not names:
            return ""
        rest = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        return (
            f"Evicted pods are created again at once by {', '.join(names[:NAMES_SHOWN])}{rest}: each new pod is "
            "evicted after a longer wait, up to 1h. Set enforcement.admission: Deny or Gate, or scale the owner down."
        )

    def _is_successor(self, pod: Pod) -> bool:
        owner = pod.controller
        before = self._owners.get(owner.uid) if owner is not None else None
        return before is not None and pod.created_at is not None and seconds(pod.created_at) >= seconds(before.at)
