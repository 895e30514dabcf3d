"""What `tgp budgets` and `tgp why budget/x` print."""

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Group
from rich.text import Text

from tgp.api.budget import ExtraHours
from tgp.api.quantity import exact
from tgp.core.budgets.assess import MILLI_SECONDS, decimal_text, gpus_text, hours_text, usd_text
from tgp.core.budgets.days import BudgetDay
from tgp.core.budgets.quota import window_words
from tgp.core.budgets.spans import seconds
from tgp.core.budgets.status import short_text
from tgp.core.budgets.victims import NextAct
from tgp.core.model.text import plain
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import Cell, TableColumn, table, wrapped
from tgp.interfaces.cli.plan_view import labelled, labelled_line
from tgp.interfaces.terminal.budget_bar import bar, style_of
from tgp.interfaces.terminal.snapshot import moment
from tgp.services.budget_answers import (
    BudgetBoard,
    BudgetEnquiry,
    BudgetLine,
    BudgetReport,
    PodUse,
    SimulatedFit,
    Simulation,
)
from tgp.services.documents.budgets import (
    asked_at,
    fits_now,
)

LONGEST_NAME = 60
PODS_SHOWN = 10
EVENTS_SHOWN = 3
HUNDREDTH = MILLI_SECONDS // 100  # of a GPU-hour
UNSURE = "no operator watched for a while, or a Node did not report"
NONE = "No budget exists. An example is in docs/budgets.md."


def hours(amount: int) -> str:
    return short_text(hours_text(amount))


def _at(when: int | None, now: datetime) -> str:
    return "" if when is None else moment(datetime.fromtimestamp(when, UTC), now)


# -- all of them -------------------------------------------------------------------------------------------------------


def render(board: BudgetBoard, width: int) -> Group:
    if not board.lines:
        return Group(*wrapped(NONE, width, style="bold"))
    lines, now = board.lines, board.now
    rows = table(
        (
            TableColumn("NAMESPACE", tuple((plain(line.key.namespace), "") for line in lines), longest=LONGEST_NAME),
            TableColumn("NAME", tuple((plain(line.key.name), "") for line in lines), longest=LONGEST_NAME),
            TableColumn("USE", tuple(_bar(line) for line in lines)),
            TableColumn("USED", tuple(_amount(line, "used") for line in lines), right=True),
            TableColumn("LEFT", tuple(_amount(line, "left") for line in lines), right=True),
            TableColumn("GPUS", tuple(_gpus(line) for line in lines), right=True),
            TableColumn("USED UP AT", tuple((_exhausted(line, now), _style(line)) for line in lines)),
            TableColumn("HOURS BACK AT", tuple((_back(line, now), "") for line in lines)),
            TableColumn("ACTION", tuple((line.budget.spec.enforcement.action, "") for line in lines)),
            TableColumn("ADMISSION", tuple((line.budget.spec.enforcement.admission, "") for line in lines)),
        ),
        width,
    )
    odd = [line for line in lines if line.not_ready or line.trouble]
    for line in odd:
        rows += wrapped(f"{line.key}: {line.not_ready or line.trouble}", width, style="yellow")
    worst = max(lines, key=lambda line: line.seen.share if line.seen is not None else -1.0)
    return Group(*rows, *next_lines(f"tgp why budget/{worst.key}"))


def _style(line: BudgetLine) -> str:
    return "" if line.seen is None else style_of(line.seen.share)


def _bar(line: BudgetLine) -> Cell:
    if line.seen is None:
        return "not counted", "dim"
    share = line.seen.share
    return f"{bar(share)} {share * 100:3.0f} %", style_of(share)


def _amount(line: BudgetLine, field: str) -> Cell:
    if line.seen is None:
        return "", ""
    if field == "used":
        return hours(line.seen.used), ""
    # What is left is rounded up, since what is used is cut off: the two add up to the quota.
    left = line.seen.left
    return hours(-(-left // HUNDREDTH) * HUNDREDTH if left >= 10 * HUNDREDTH else left), ""


def _gpus(line: BudgetLine) -> Cell:
    return ("", "") if line.seen is None else (gpus_text(line.seen.milli), "")


def _exhausted(line: BudgetLine, now: datetime) -> str:
    if line.seen is None:
        return ""
    return "now" if line.seen.exceeded else _at(line.seen.exhausted_at, now)


def _back(line: BudgetLine, now: datetime) -> str:
    return _at(line.seen.next_change_at, now) if line.seen is not None and line.seen.exceeded else ""


# -- one of them -------------------------------------------------------------------------------------------------------


def render_budget(asked: BudgetEnquiry, width: int) -> Group:
    line = asked.line
    state = "not counted" if line.seen is None else "over the quota" if line.seen.exceeded else "within the quota"
    heading = Text.assemble((f"budget {line.key}", "bold"), ": ", (state, _style(line) or "dim"), no_wrap=True)
    lines = [heading, Text()]
    for label, words in budget_rows(asked):
        lines += labelled_line(label, words, width)
    return Group(*lines, Text(), *next_lines(_next(asked)))


def _next(asked: BudgetEnquiry) -> str:
    seen, key = asked.line.seen, asked.line.key
    if seen is not None and seen.exceeded:
        return f"tgp budgets top-up {key} --gpu-hours 10 --until friday"
    return "tgp budgets"


def budget_rows(asked: BudgetEnquiry) -> Iterator[tuple[str, str]]:
    line, now = asked.line, asked.now
    if line.not_ready:
        yield "not counted", line.not_ready
    if line.seen is not None:
        yield from _use_rows(asked, line)
    granted = [each for each in line.budget.spec.quota.extra if each.until > now]
    yield from labelled("on top", (_extra_words(each, now) for each in granted))
    yield from labelled("running", _running_words(asked))
    yield from labelled("ended", (f"{row.pod}: {short_text(str(row.gpu_hours))} GPU-hours" for row in asked.ended))
    if asked.act is not None:
        yield from labelled("next", _act_words(asked, asked.act))
    if line.trouble:
        yield "trouble", line.trouble
    yield from labelled("events", (f"{each.reason}: {each.message}" for each in asked.events[-EVENTS_SHOWN:]))


def _extra_words(each: ExtraHours, now: datetime) -> str:
    why = f": {each.reason}" if each.reason else ""
    return f"{decimal_text(exact(each.gpu_hours))} GPU-hours until {moment(each.until, now)}{why}"


def _running_words(asked: BudgetEnquiry) -> Iterator[str]:
    for pod in asked.running[:PODS_SHOWN]:
        yield _pod_words(pod)
    if (more := len(asked.running) - PODS_SHOWN) > 0:
        yield f"and {more} more: -o json has all"
    if asked.unknown:
        pods = f"{asked.unknown} {'pod' if asked.unknown == 1 else 'pods'}"
        yield f"{'and ' if asked.running else ''}{pods} not shown (no permission, or just ended)"


def _use_rows(asked: BudgetEnquiry, line: BudgetLine) -> Iterator[tuple[str, str]]:
    seen, now = line.seen, asked.now
    assert seen is not None, "checked by the caller"
    share = seen.share
    when = window_words(line.budget.spec.quota, seconds(now))
    of = f" of ${line.budget.spec.quota.usd}" if share > seen.used / seen.quota else ""  # the nearer limit
    yield (
        "used",
        f"{bar(share)} {share * 100:.0f} %{of}: {hours(seen.used)} of {hours(line.limits.used)} GPU-hours {when}",
    )
    if line.budget.spec.quota.usd is not None:
        yield (
            "",
            f"${usd_text(seen.usd)} of ${line.budget.spec.quota.usd}; {hours(seen.unpriced)} GPU-hours have no price",
        )
    if seen.unsure:
        yield "unsure", f"{hours(seen.unsure)} of them, because {' and '.join(_unsure_words(asked)) or UNSURE}"
    if seen.milli:
        yield "burns", f"{gpus_text(seen.milli)} GPU-hours every hour"
    if seen.exceeded:
        back = f"at {_at(seen.next_change_at, now)}" if seen.next_change_at is not None else "not while these pods run"
        yield "hours back", back
    elif seen.exhausted_at is not None:
        yield "used up", f"at {_at(seen.exhausted_at, now)}, if everything keeps running"


def _unsure_words(asked: BudgetEnquiry) -> Iterator[str]:
    """Of pods that run by name; of those that are gone the account knows the hours."""
    now, account = asked.now, asked.line.account
    silent = [(pod.name, pod.unsure_since) for pod in asked.running if pod.unsure_since is not None]
    if silent:
        names = (f"{name} (since {_at(since, now)})" for name, since in silent[:PODS_SHOWN])
        more = f" and {len(silent) - PODS_SHOWN} more" if len(silent) > PODS_SHOWN else ""
        yield f"the Nodes of these pods do not report: {', '.join(names)}{more}"
    if account is not None and (between := account.unsure_between(seconds(now))) is not None:
        first, last = (_at(each, now) for each in between)
        yield f"between {first} and {last} {UNSURE}"


def _pod_words(pod: PodUse) -> str:
    if not pod.started:
        return f"{pod.name}: {_gpu_words(gpus_text(pod.milli))}, not started yet"
    unsure = ", its Node is silent" if pod.unsure_since is not None else ""
    return f"{pod.name}: {hours(pod.used)} GPU-hours, {_gpu_words(gpus_text(pod.milli))}{unsure}"


def _gpu_words(count: str) -> str:
    return f"{count} GPU" if count == "1" else f"{count} GPUs"


def _act_words(asked: BudgetEnquiry, act: NextAct) -> Iterator[str]:
    when = _at(act.at, asked.now)
    if act.begun and act.action == "AlertOnly":
        yield "an Event has said that the quota is used up; no pod is stopped"
    elif act.begun and not act.pods:
        yield f"the action {act.action} has begun; use falls back to the quota without stopping another pod"
    elif act.action == "AlertOnly":
        yield f"at {when} an Event says that the quota is used up; no pod is stopped"
    elif not act.pods:
        yield f"at {when} the action {act.action} begins; use is back at the quota without stopping a pod"
    else:
        verb = "paused" if act.action == "Pause" else "evicted"
        names = [pod.key.name for pod in act.pods[:PODS_SHOWN]]
        more = f" and {len(act.pods) - PODS_SHOWN} more" if len(act.pods) > PODS_SHOWN else ""
        yield f"at {when} these pods are {verb}, in this order: {', '.join(names)}{more}"


# -- would it fit ------------------------------------------------------------------------------------------------------


def render_simulation(answer: Simulation, gpus: str, length: str, width: int) -> Group:
    named = ",".join(f"{key}={value}" for key, value in answer.labels.items())
    lasts = "1 hour" if length == "1" else f"{length} hours"
    what = f"{_gpu_words(gpus)} for {lasts} in namespace {answer.namespace}{f' with {named}' if named else ''}"
    lines = wrapped(f"{what}: {_verdict(answer)}", width, style="bold")
    for each in answer.fits:
        lines += wrapped(f"{each.line.key}: {_fit_words(each, answer.now)}", width, first="  ", rest="    ")
    return Group(*lines, *next_lines(f"tgp why budget/{answer.fits[0].line.key}" if answer.fits else "tgp budgets"))


def _verdict(answer: Simulation) -> str:
    if not answer.fits:
        return "no budget would count it."
    if fits_now(answer):
        return "fits now."
    fits = [each.fit for each in answer.fits if each.fit is not None]
    if any(each.too_large for each in fits):
        return "never fits."
    known = [each.at for each in fits if each.at is not None]
    if len(known) < len(fits):
        return "does not fit while everything that runs now keeps running."
    return f"fits from {_at(max(known), answer.now)} on."


def _fit_words(each: SimulatedFit, now: datetime) -> str:
    found = each.fit
    if found is None:
        return each.line.not_ready or "nothing was counted yet: it fits"
    need = f"{hours(found.needs)} GPU-hours of a quota of {hours(each.line.limits.used)}"
    if found.too_large:
        return f"never: it needs {need}"
    if found.at is None:
        return f"does not fit within a window if everything that runs now keeps running: it needs {need}"
    if found.at == asked_at(each):
        return f"fits now: it needs {need}"
    return f"fits from {_at(found.at, now)} on: it needs {need}"


# -- by the month ------------------------------------------------------------------------------------------------------


def render_report(answer: BudgetReport, width: int) -> Group:
    if not answer.days:
        return Group(*wrapped(f"No budget used anything in {answer.month}.", width, style="bold"))
    totals = _totals(answer.days)
    rows = table(
        (
            TableColumn("NAMESPACE", tuple((plain(row.namespace), "") for row, _ in totals), longest=LONGEST_NAME),
            TableColumn("NAME", tuple((plain(row.name), "") for row, _ in totals), longest=LONGEST_NAME),
            TableColumn("DAYS", tuple((str(days), "") for _, days in totals), right=True),
            TableColumn("GPU-HOURS", tuple((hours(row.used), "") for row, _ in totals), right=True),
            TableColumn("UNSURE", tuple((hours(row.unsure), "") for row, _ in totals), right=True),
            TableColumn("DOLLARS", tuple((usd_text(row.usd), "") for row, _ in totals), right=True),
        ),
        width,
    )
    return Group(*rows, *next_lines(f"tgp budgets report --month {answer.month} -o csv"))


def _totals(days: Sequence[BudgetDay]) -> list[tuple[BudgetDay, int]]:
    """Of each budget the sum, and of how many days."""
    found: dict[tuple[str, str], list[BudgetDay]] = {}
    for row in days:
        found.setdefault((row.namespace, row.name), []).append(row)
    return [
        (
            BudgetDay(
                namespace=namespace,
                name=name,
                day="",
                used=sum(row.used for row in rows),
                unsure=sum(row.unsure for row in rows),
                unpriced=sum(row.unpriced for row in rows),
                usd=sum(row.usd for row in rows),
            ),
            len(rows),
        )
        for (namespace, name), rows in found.items()
    ]


def report_csv(answer: BudgetReport) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("day", "namespace", "budget", "gpu_hours", "unsure_gpu_hours", "unpriced_gpu_hours", "usd"))
    for row in answer.days:
        amounts = (hours_text(row.used), hours_text(row.unsure), hours_text(row.unpriced), usd_text(row.usd))
        writer.writerow((row.day, row.namespace, row.name, *amounts))
    return out.getvalue()
