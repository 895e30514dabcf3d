"""A person's yes. Ending machines needs one that names them, and only this file makes it."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from tgp.surfaces.cli.interrupt import answer
from tgp.surfaces.terminal.scene import plain


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Somebody agreed that exactly these machines of this cluster end."""

    cluster: str  # the cluster id
    machines: frozenset[tuple[str, str]]  # till, and the provider's id there


def interactive() -> bool:
    """Is there somebody who could answer?"""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str, *, yes: bool) -> bool:
    """`--yes`, or a y typed after the question. Nobody there: no."""
    if yes:
        return True
    return interactive() and answer(f"{plain(question)} [y/N]:").lower() in {"y", "yes"}


def typed(question: str, expected: str, *, yes: bool) -> bool:
    """`--yes`, or exactly that word typed: too much to be done by a finger that slipped."""
    if yes:
        return True
    return interactive() and answer(f"{plain(question)}:") == expected


def confirmed(cluster: str, machines: Iterable[tuple[str, str]], question: str, *, yes: bool) -> Confirmed | None:
    """None: nobody agreed, and nothing ends."""
    ends = frozenset(machines)
    return Confirmed(cluster, ends) if ends and agreed(question, yes=yes) else None
