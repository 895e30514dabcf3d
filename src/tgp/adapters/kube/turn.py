"""Which turn is being taken: bound once at its top, inherited by everything that happens in it."""

from contextvars import ContextVar
from typing import NamedTuple

from tgp.core.model.key import Key


class Turn(NamedTuple):
    controller: str
    key: Key
    number: int  # counts the controller's turns since the process started

    def __str__(self) -> str:
        return f"{self.controller}-{self.number}"


CURRENT: ContextVar[Turn | None] = ContextVar("turn", default=None)


def bound() -> dict[str, str]:
    """What a log line says of the turn it was written in; empty outside of one."""
    turn = CURRENT.get()
    return {} if turn is None else {"turn": str(turn), "key": str(turn.key)}
