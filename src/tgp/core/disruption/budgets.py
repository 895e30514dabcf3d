"""How many more nodes of a pool may be disrupted now, and which of its budgets holds back the rest.

A node counts from its hard taint until it is gone, and while it is not Ready: a budget says how many nodes may be
missing at the same time, whatever the cause.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tgp.api.nodepool import DisruptionRule
from tgp.api.values import duration
from tgp.core.disruption.windows import WindowState, open_at
from tgp.core.model.cron import NotASchedule, read_schedule
from tgp.core.model.time_zone import UnknownTimeZone

DEFAULT_RULES = (DisruptionRule(),)
ALWAYS = WindowState(True, None)


@dataclass(frozen=True, slots=True)
class Allowance:
    left: int  # how many more nodes may be disrupted
    rule: str  # the strictest budget that applies, in text for users; empty: none does
    until: datetime | None  # when that budget no longer applies; None: it always does, or none applies
    look_again_at: datetime | None  # when a budget begins or no longer applies; None: not by time alone

    def __bool__(self) -> bool:
        return self.left > 0


def allowance(rules: Iterable[DisruptionRule], reason: str, nodes: int, disrupted: int, now: datetime) -> Allowance:
    """`nodes`: of the pool; `disrupted`: those of them that count already.

    A pool without budgets has the default one. A budget whose schedule or zone cannot be read always applies: what it
    was to protect is not known.
    """
    strictest: tuple[int, int, DisruptionRule, WindowState] | None = None
    edges = []
    for place, rule in enumerate(tuple(rules) or DEFAULT_RULES):
        if rule.reasons and reason not in rule.reasons:
            continue
        window = _window(rule, now)
        edges.append(window.until)
        if window.open and (strictest is None or nodes_of(rule, nodes) < strictest[0]):
            strictest = (nodes_of(rule, nodes), place, rule, window)
    look_again_at = min((edge for edge in edges if edge is not None), default=None)
    if strictest is None:
        return Allowance(max(nodes - disrupted, 0), "", None, look_again_at)
    most, place, rule, window = strictest
    return Allowance(max(most - disrupted, 0), _text(place, rule), window.until, look_again_at)


def nodes_of(rule: DisruptionRule, nodes: int) -> int:
    """Of a pool with so many nodes: a percentage is rounded up, and is at least 1 unless it is 0."""
    text = str(rule.nodes)
    if not text.endswith("%"):
        return int(text)
    percent = int(text.removesuffix("%"))
    return max(-(-nodes * percent // 100), 1) if percent else 0


def _window(rule: DisruptionRule, now: datetime) -> WindowState:
    if rule.schedule is None or rule.duration is None:
        return ALWAYS
    try:
        schedule = read_schedule(rule.schedule)
        return open_at(schedule, duration(rule.duration, "duration"), rule.time_zone or "UTC", now)
    except (NotASchedule, UnknownTimeZone):  # the pool is not Ready, and says so
        return ALWAYS


def _text(place: int, rule: DisruptionRule) -> str:
    when = ""
    if rule.schedule is not None:
        when = f' from "{rule.schedule}" for {rule.duration}, {rule.time_zone or "UTC"}'
    return f"spec.disruption.budgets[{place}] (nodes: {rule.nodes}{when})"
