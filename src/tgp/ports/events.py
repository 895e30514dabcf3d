"""Kubernetes Events: what happened to an object, where its owner looks first."""

from typing import Protocol

from tgp.core.model.facts import FactSubject


class Events(Protocol):
    def emit(self, subject: FactSubject, *, warning: bool, reason: str, message: str) -> None:
        """Queue one Event; repeats are counted, not repeated. Never blocks; when too many wait, some are dropped."""
        ...
