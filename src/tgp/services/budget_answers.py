"""What the budget service returns: every budget, one in detail, whether more would fit, and what days used."""

from dataclasses import dataclass
from datetime import datetime

from tgp.api.budget import EndedPod, GPUWorkloadBudget
from tgp.core.budgets.account import BudgetAccount
from tgp.core.budgets.assess import Assessment, Limits
from tgp.core.budgets.days import BudgetDay
from tgp.core.budgets.simulate import BudgetFit
from tgp.core.budgets.victims import NextAct
from tgp.core.model.event import Event
from tgp.core.model.object_key import ObjectKey


@dataclass(frozen=True, slots=True)
class BudgetLine:
    key: ObjectKey
    budget: GPUWorkloadBudget
    limits: Limits
    account: BudgetAccount | None  # None: nothing was counted yet, or it cannot be read
    seen: Assessment | None  # by the account, at the moment of asking

    @property
    def not_ready(self) -> str:
        """Why nothing is counted, as the operator says it; empty: it counts."""
        rows = (row for row in self.budget.status.conditions if row.type == "Ready")
        return next((f"{row.reason}: {row.message}" for row in rows if row.status != "True"), "")

    @property
    def trouble(self) -> str:
        """Why it cannot do all that it is asked for; empty: it can."""
        rows = (row for row in self.budget.status.conditions if row.type == "Degraded")
        return next((f"{row.reason}: {row.message}" for row in rows if row.status == "True"), "")


@dataclass(frozen=True, slots=True)
class BudgetBoard:
    now: datetime
    lines: tuple[BudgetLine, ...]


@dataclass(frozen=True, slots=True)
class PodUse:
    """A pod that counts and has not ended."""

    name: str  # with its namespace where the budget covers several
    milli: int
    used: int  # in the window
    unsure_since: int | None  # when its Node was last heard of; None: it reports
    started: bool


@dataclass(frozen=True, slots=True)
class BudgetEnquiry:
    now: datetime
    line: BudgetLine
    running: tuple[PodUse, ...]  # the most used first
    unknown: int  # open in the account, and not shown to this user
    ended: tuple[EndedPod, ...]
    act: NextAct | None  # None: nothing happens by itself
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class SimulatedFit:
    line: BudgetLine
    fit: BudgetFit | None  # None: nothing was counted yet


@dataclass(frozen=True, slots=True)
class Simulation:
    now: datetime
    namespace: str
    labels: dict[str, str]
    fits: tuple[SimulatedFit, ...]


@dataclass(frozen=True, slots=True)
class BudgetReport:
    month: str
    days: tuple[BudgetDay, ...]
