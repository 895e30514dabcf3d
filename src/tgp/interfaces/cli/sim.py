"""The simulated market in tables: its URLs, its machines, its costs, and the faults it can produce."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from tgp.interfaces.cli.output import TableColumn, table

Rows = Sequence[Mapping[str, Any]]
LONGEST_KEY = 40  # a service account's key is a page of JSON
PHASES = {"running": "green", "starting": "cyan", "stopped": "yellow", "lost": "red", "ending": "dim"}


def clouds_table(rows: Rows, width: int) -> list[Text]:
    return table(
        [
            _column("PROVIDER", rows, "provider"),
            _column("URL", rows, "url"),
            TableColumn("KEY", tuple((_key(row), "") for row in rows)),
        ],
        width,
    )


def fleet_table(rows: Rows, width: int) -> list[Text]:
    if not rows:
        return [Text("No machine runs in the simulated market.")]
    return table(
        [
            _column("PROVIDER", rows, "provider"),
            _column("ID", rows, "id", longest=24),
            _column("NAME", rows, "name", longest=52),
            _column("TYPE", rows, "type", longest=24),
            _column("PLACE", rows, "place", longest=16),
            TableColumn("GPU", tuple((f"{row.get('gpus')}x {row.get('gpu')}", "") for row in rows)),
            TableColumn("PHASE", tuple((str(row.get("phase")), PHASES.get(str(row.get("phase")), "")) for row in rows)),
            _money("$/H", rows, "hourly"),
            _money("SPENT", rows, "spent"),
        ],
        width,
    )


def bill_table(rows: Rows, width: int) -> list[Text]:
    return table(
        [
            _column("PROVIDER", rows, "provider"),
            _column("ACCOUNT", rows, "account", longest=32),
            _column("MACHINES", rows, "machines", right=True),
            _column("RUNNING", rows, "running", right=True),
            _money("$/H", rows, "hourly"),
            _money("SPENT", rows, "spent"),
            _money("BALANCE", rows, "balance"),
        ],
        width,
    )


def menu_table(rows: Rows, width: int) -> list[Text]:
    applies_to = tuple((", ".join(row.get("befalls", ())), "dim") for row in rows)
    return table(
        [
            _column("FAULT", rows, "fault"),
            TableColumn("APPLIES TO", applies_to),
            _column("SEEN", rows, "seen", right=True),
        ],
        width,
    )


def _column(head: str, rows: Rows, name: str, *, right: bool = False, longest: int = 0) -> TableColumn:
    cells = tuple(("-" if row.get(name) is None else str(row.get(name)), "") for row in rows)
    return TableColumn(head, cells, right=right, longest=longest)


def _money(head: str, rows: Rows, name: str) -> TableColumn:
    """Dollars with aligned decimal points: all have as many decimals as the longest needs."""
    said = ["-" if row.get(name) is None else str(row.get(name)) for row in rows]
    decimals = max((len(each.partition(".")[2]) for each in said), default=0)
    cells = tuple((each + "0" * (decimals - len(each.partition(".")[2])) if "." in each else each, "") for each in said)
    return TableColumn(head, cells, right=True)


def _key(row: Mapping[str, Any]) -> str:
    key = str(row.get("key") or "none needed")
    return key if len(key) <= LONGEST_KEY else "see /_tgp/clouds"
