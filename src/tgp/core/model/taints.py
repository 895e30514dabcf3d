"""Taints and tolerations, decided as the scheduler decides them."""

from collections.abc import Iterable

import msgspec

HARD_EFFECTS = ("NoSchedule", "NoExecute")


class Taint(msgspec.Struct, frozen=True, gc=False):
    key: str
    effect: str
    value: str = ""


class Toleration(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    key: str = ""  # empty, with Exists: every key
    operator: str = "Equal"
    value: str = ""
    effect: str = ""  # empty: every effect
    toleration_seconds: int | None = None  # None: for ever

    def covers(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator or "Equal":
            case "Exists":
                return True
            case "Equal":
                return bool(self.key) and self.value == taint.value
            case _:  # numeric comparisons are younger than the oldest Kubernetes we support: not tolerated, said so
                return False


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Taint | None:
    """The first taint that keeps the pod off, or None."""
    kept = tuple(tolerations)
    for taint in taints:
        if taint.effect in HARD_EFFECTS and not any(toleration.covers(taint) for toleration in kept):
            return taint
    return None
