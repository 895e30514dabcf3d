"""The user's confirmation. Terminating machines needs one that names them, and only this file creates it."""

import sys
from collections.abc import Iterable

from tgp.core.model.text import plain
from tgp.interfaces.cli.interrupt import answer
from tgp.services.confirmed import Confirmed


def interactive() -> bool:
    """Can a user answer a question?"""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str, *, yes: bool) -> bool:
    """`--yes`, or a y typed after the question. Without a terminal: no."""
    if yes:
        return True
    return interactive() and answer(f"{plain(question)} [y/N]:").lower() in {"y", "yes"}


def typed(question: str, expected: str, *, yes: bool) -> bool:
    """`--yes`, or exactly that word typed: a single key by mistake must not be enough."""
    if yes:
        return True
    return interactive() and answer(f"{plain(question)}:") == expected


def confirmed(cluster: str, machines: Iterable[tuple[str, str]], question: str, *, yes: bool) -> Confirmed | None:
    """None: not confirmed, and no machine may be terminated."""
    ends = frozenset(machines)
    return Confirmed(cluster, ends) if ends and agreed(question, yes=yes) else None
