"""Where facts go. One file turns each into its log line, metric and Event, so that the three never disagree."""

from typing import Protocol

from tgp.core.model.facts import Fact


class Journal(Protocol):
    def note(self, fact: Fact) -> None:
        """Never blocks, never raises for the fact's sake."""
        ...
