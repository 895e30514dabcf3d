"""The reconcile in progress: set once at its start, inherited by everything that runs in it."""

from contextvars import ContextVar
from typing import NamedTuple

from tgp.core.model.object_key import ObjectKey


class ReconcileContext(NamedTuple):
    controller: str
    key: ObjectKey
    number: int  # counts the controller's reconciles since the process started

    def __str__(self) -> str:
        return f"{self.controller}-{self.number}"


CURRENT: ContextVar[ReconcileContext | None] = ContextVar("reconcile", default=None)


def bound() -> dict[str, str]:
    """The fields of a log line written during a reconcile; empty outside of one."""
    context = CURRENT.get()
    return {} if context is None else {"reconcile": str(context), "key": str(context.key)}
