"""What `tgp cost` prints: a table with its sum, a document, or lines for a spreadsheet."""

import csv
import io

from rich.console import Group
from rich.text import Text

from tgp.core.model.money import decimal, dollars, to_the_cent
from tgp.core.model.text import plain
from tgp.core.reports.cost_report import CostBill, CostLine, Window
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import UNBOUNDED, Cell, TableColumn, table, wrapped

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
