"""Log lines as event rows: while a screen is shown, log lines appear among the events."""

import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import get_args

from tgp.adapters.telemetry.logs import PLAIN, ROOT
from tgp.core.model.facts import (
    AnnotationIgnored,
    BudgetFact,
    ConditionChanged,
    DisruptionCounted,
    DisruptionNoted,
    JoinApproved,
    JoinApprovedByOthers,
    JoinDenied,
    MachineFact,
    MoveEnded,
    NominationUnsupported,
    NoPodWaits,
    ObjectUnreadable,
    PlanCutShort,
    PlanMade,
    PodNominated,
    PodsMoved,
    ReplacementBilled,
    RequestReplanned,
    SavingsPromised,
    ScaleUpNotTriggered,
    ScaleUpTriggered,
)
from tgp.interfaces.terminal.snapshot import EventRow, label
from tgp.ports.clock import Clock

KEPT = 200  # lines; more than any screen shows
# Not worth a line: a write that conflicted with another client and is repeated; plans, of which the last is shown;
# counts for metrics.
COUNTS = (DisruptionCounted, MoveEnded, NoPodWaits, PlanMade, PodsMoved, ReplacementBilled, SavingsPromised)
ROUTINE = frozenset({"reconcile deferred", *(fact.__name__ for fact in COUNTS)})
JOINS = (JoinApproved, JoinDenied, JoinApprovedByOthers)
PURCHASES = (PlanCutShort, ScaleUpTriggered, ScaleUpNotTriggered, PodNominated, NominationUnsupported, RequestReplanned)
OTHERS = (AnnotationIgnored, DisruptionNoted, ObjectUnreadable)
SHOWN_AS_EVENTS = frozenset(
    fact.__name__ for fact in (*get_args(MachineFact), *get_args(BudgetFact), *JOINS, *PURCHASES, *OTHERS)
)
RESOURCES = {
    "gpunodeclass": "GPUNodeClass",
    "gpunodepool": "GPUNodePool",
    "gpurequest": "GPURequest",
    "gpuworkloadbudget": "GPUWorkloadBudget",
}


class LogCapture(logging.Handler):
    """Keeps the last lines. Facts that are also written as Events are left out."""

    def __init__(self, clock: Clock, *, conditions: bool) -> None:
        super().__init__(logging.INFO)
        self.rows: deque[EventRow] = deque(maxlen=KEPT)
        self._clock = clock
        self._conditions = conditions

    def emit(self, record: logging.LogRecord) -> None:
        said = {name: value for name, value in vars(record).items() if name not in PLAIN}
        warning = record.levelno >= logging.WARNING
        if record.msg == ConditionChanged.__name__:
            if self._conditions:
                reason, text = str(said.get("reason", "")), str(said.get("text", ""))
                self._keep(about_subject(str(said.get("subject", ""))), reason, text, warning=warning)
            return
        if record.msg in ROUTINE or (record.msg in SHOWN_AS_EVENTS and not self._conditions):
            return
        about = about_subject(str(said.pop("subject", ""))) or "operator"
        words = [f"{name} {value}" for name, value in said.items() if name != "where"]
        if record.exc_info and record.exc_info[0] is not None:
            words.append(f"{record.exc_info[0].__name__}: {record.exc_info[1]}")
        self._keep(about, record.getMessage(), ", ".join(words), warning=warning)

    def _keep(self, about: str, reason: str, message: str, *, warning: bool) -> None:
        self.rows.append(EventRow(self._clock.now(), warning, about, reason, message))

    @contextmanager
    def capturing(self) -> Iterator[None]:
        """Every log line of tgp goes here, and nowhere else, for as long as the block lasts."""
        ours, root = logging.getLogger(ROOT), logging.getLogger()
        before = (ours.handlers[:], ours.level, ours.propagate, root.handlers[:], root.level)
        ours.handlers[:], root.handlers[:] = [self], [self]
        ours.setLevel(logging.INFO)
        root.setLevel(logging.WARNING)
        ours.propagate = False
        try:
            yield
        finally:
            ours.handlers[:], root.handlers[:] = before[0], before[3]
            ours.setLevel(before[1])
            root.setLevel(before[4])
            ours.propagate = before[2]


def about_subject(subject: str) -> str:
    """`gpunodepool/ml/training` as the screen shows it; empty stays empty."""
    kind, _, name = subject.partition("/")
    return label(RESOURCES.get(kind, kind), name) if subject else ""
