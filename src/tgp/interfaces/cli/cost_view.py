"""What `tgp cost` prints: a table with its sum, a document, or lines for a spreadsheet."""

import csv
import io

from rich.console import Group
from rich.text import Text

from tgp.api.values import rfc3339
from tgp.core.model.money import decimal, dollars, to_the_cent
from tgp.core.reports.cost_report import CostBill, CostLine, Window
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import UNBOUNDED, Cell, TableColumn, table, usd, wrapped
from tgp.interfaces.documents import API_VERSION
from tgp.interfaces.documents.machines import CostItem, CostReport
from tgp.interfaces.terminal.snapshot import plain

LONGEST_GROUP = 60
SAVED = "SAVED is what replaced machines would have cost, minus the cost of the cheaper machines that replaced them."
ESTIMATE = "RUNNING is the estimated cost so far of machines that still run; SPENT includes it."


def render(bill: CostBill, width: int) -> Group:
    if not bill.lines:
        return Group(*_nothing(bill, width))
    rows = (*bill.lines, bill.total)
    longest = LONGEST_GROUP if width < UNBOUNDED else 0
    saved = (TableColumn("SAVED $", tuple(_saved(row) for row in rows), right=True),) if _any_saved(bill) else ()
    lines = table(
        (
            TableColumn(bill.by.upper(), tuple((plain(row.group), _style(row)) for row in rows), longest=longest),
            TableColumn("MACHINES", tuple((f"{row.machines:,}", _style(row)) for row in rows), right=True),
            TableColumn(
                "GPU-HOURS", tuple((f"{row.gpu_seconds / 3600:,.1f}", _style(row)) for row in rows), right=True
            ),
            TableColumn("SPENT $", tuple(money_cell(row.microusd, row) for row in rows), right=True),
            TableColumn("RUNNING $", tuple(_running(row) for row in rows), right=True),
            *saved,
        ),
        width,
    )
    if bill.total.running_microusd:
        lines += wrapped(ESTIMATE, width, style="dim")
    if saved:
        lines += wrapped(SAVED, width, style="dim")
    if bill.hourly_microusd:
        lines += wrapped(f"Running machines cost {dollars(bill.hourly_microusd)} an hour.", width)
    return Group(*lines, *_odd(bill, width))


def _nothing(bill: CostBill, width: int) -> list[Text]:
    words = "No cost in this period." if bill.window != Window() else "No cost so far."
    return [*wrapped(words, width, style="bold"), *_odd(bill, width), *next_lines("tgp offers")]


def _odd(bill: CostBill, width: int) -> list[Text]:
    if not bill.unreadable:
        return []
    words = f"{len(bill.unreadable)} spend records are unreadable and not counted: {', '.join(bill.unreadable[:3])}"
    return wrapped(words, width, style="yellow")


def as_document(bill: CostBill) -> CostReport:
    begin, end = bill.window.begin, bill.window.end
    return CostReport(
        apiVersion=API_VERSION,
        kind="CostReport",
        by=bill.by,
        since=rfc3339(begin) if begin is not None else None,
        until=rfc3339(end) if end is not None else None,
        items=[_item(line) for line in bill.lines],
        total=_item(bill.total),
        usdPerHourNow=usd(bill.hourly_microusd),
        unreadable=list(bill.unreadable),
    )


def as_csv(bill: CostBill) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow((bill.by, "machines", "gpu_hours", "usd", "running_usd", "saved_usd"))
    for line in bill.lines:
        gpu_hours = f"{line.gpu_seconds / 3600:.4f}"
        money = tuple(decimal(each) for each in (line.microusd, line.running_microusd, line.saved_microusd))
        writer.writerow((_cell(line.group), line.machines, gpu_hours, *money))
    return out.getvalue()


def _cell(text: str) -> str:
    """A spreadsheet must not interpret a name as a formula."""
    shown = plain(text)
    return f"'{shown}" if shown[:1] in {"=", "+", "-", "@"} else shown


def _item(line: CostLine) -> CostItem:
    return {
        "group": plain(line.group),
        "machines": line.machines,
        "gpuHours": round(line.gpu_seconds / 3600, 4),
        "usd": usd(line.microusd),
        "runningUsd": usd(line.running_microusd),
        "savedUsd": usd(line.saved_microusd),
    }


def _style(row: CostLine) -> str:
    return "bold" if row.group == "total" else ""


def money_cell(microusd: int, row: CostLine) -> Cell:
    return to_the_cent(microusd), _style(row)


def _running(row: CostLine) -> Cell:
    return money_cell(row.running_microusd, row) if row.running_microusd else ("", "")


def _any_saved(bill: CostBill) -> bool:
    return any(row.saved_microusd for row in bill.lines)


def _saved(row: CostLine) -> Cell:
    return money_cell(row.saved_microusd, row) if row.saved_microusd else ("", "")
