"""What `tgp check` found, provider by provider: whether the API key works, its permissions, and the offers.

It also reports whether the provider's machines can become nodes of a Talos cluster.
"""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Group
from rich.text import Text

from tgp.core.model.money import dollars
from tgp.core.model.offer import BootMode
from tgp.core.model.text import plain
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import TableColumn, table, wrapped
from tgp.ports.cloud import Right
from tgp.services.documents.checks import summary, what_follows
from tgp.services.market_answers import CheckRow, KeyVerdict
from tgp.services.preflight_answers import ClusterFinding

LABEL = 10  # columns of a line's first word
INDENT = "    "
NO_CLUSTER = "No cluster was checked, only API keys."
GOES_ON = " \\"  # the shell's line continuation
MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}

_NO_NODES = {**MARKS, True: ("!", "yellow")}  # the API key works, but no machine can become a node


def render(rows: Sequence[CheckRow], findings: Sequence[ClusterFinding], width: int, *, wide: bool = False) -> Group:
    lines: list[Text] = []
    if findings:
        lines += [*finding_lines(findings, width), Text()]
    else:
        lines += [*wrapped(NO_CLUSTER, width, style="dim"), Text()]
    set_up = [row for row in rows if row.works is not None]
    if wide:
        for row in set_up:
            lines += [*_block(row, width), Text()]
    elif set_up:
        lines += [*_rows(set_up, width), Text()]
    missing = [row for row in rows if row.works is None]
    if missing:
        names = "; ".join(f"{row.title}: {row.variable}" for row in missing)
        lines += [*wrapped(f"Not set up, no API key. {names}.", width, rest=INDENT), Text()]
    lines += wrapped(summary(rows, findings), width, style="bold")
    lines += wrapped("Nothing was bought or spent.", width, style="dim")
    lines += next_lines(next_command(rows, findings))
    return Group(*lines)


def finding_lines(findings: Sequence[ClusterFinding], width: int) -> Iterator[Text]:
    """What was found in a cluster, one row each, with the command that closes a gap."""
    room = max(cell_len(finding.title) for finding in findings) + len("✓  ")
    for finding in findings:
        yield from _finding(finding, width, room)


def _finding(finding: ClusterFinding, width: int, room: int) -> Iterator[Text]:
    """One row, and below it the command that closes the gap, wrapped so that it can be pasted into a shell."""
    mark, style = MARKS[finding.good]
    first = f"{mark} {plain(finding.title)}".ljust(room)
    line, *rest = wrapped(finding.words, width, first=first, rest=" " * room)
    line.stylize(style, 0, len(mark))
    yield line
    yield from rest
    if finding.command:
        margin = " " * room
        *cut, last = wrapped(finding.command, width - len(GOES_ON), first=margin, rest=margin, style="bold")
        yield from (Text.assemble(line, (GOES_ON, "bold")) for line in cut)
        yield last


def _rows(rows: Sequence[CheckRow], width: int) -> Iterator[Text]:
    """One line per provider, and below the table why an API key does not work."""
    marks = [MARKS[row.works] if row.joins else _NO_NODES[row.works] for row in rows]
    columns = [
        TableColumn("", tuple(marks)),
        TableColumn("PROVIDER", tuple((row.title, "bold") for row in rows)),
        TableColumn("KEY", tuple((f"{row.key}", "red" if row.works is False else "") for row in rows)),
        TableColumn("BALANCE", tuple((_balance(row), "" if row.can_buy else "red") for row in rows), right=True),
        TableColumn(
            "OFFERS", tuple((f"{row.offers:,}" if row.offers is not None else "?", "") for row in rows), right=True
        ),
        TableColumn("GPU-HOUR FROM", tuple((_from(row), "") for row in rows), right=True),
        TableColumn("TALOS NODES", tuple((_nodes(row), "" if row.joins else "yellow") for row in rows)),
    ]
    yield from table(columns, width)
    for row in rows:
        if row.works is False:
            yield from wrapped(f"{row.title}: {why_not(row)}", width, first=INDENT, rest=INDENT, style="red")


def why_not(row: CheckRow) -> str:
    """Why a provider cannot be used with its API key."""
    if row.key in {KeyVerdict.MISSING, KeyVerdict.REFUSED, KeyVerdict.UNTRIED}:
        return _key(row)
    if not row.can_buy:
        return "this account cannot pay now"
    if row.offers is None:
        return f"the offers could not be read{f': {row.why}' if row.why else ''}"
    return "the API key lacks permission: " + ", ".join(right.name for right in row.rights if right.held is False)


def _balance(row: CheckRow) -> str:
    return dollars(row.balance_microusd) if row.balance_microusd is not None else ""


def _from(row: CheckRow) -> str:
    return dollars(row.from_microusd) if row.from_microusd is not None else ""


def _nodes(row: CheckRow) -> str:
    return next((words for mode, words in _IN_SHORT.items() if mode in row.boot), "unknown")


_IN_SHORT = {
    BootMode.NATIVE: "yes: boots Talos images",
    BootMode.TAKEOVER: "unproven: Talos is written over its Linux",
    BootMode.POWER: "yes: machines you own",
    BootMode.CONTAINER: "no: rents containers",
}


def next_command(rows: Sequence[CheckRow], findings: Sequence[ClusterFinding] = ()) -> str:
    """Close the first gap, else repair what is broken, else show offers; empty: the command is printed above."""
    if gap := next((finding for finding in findings if finding.good is False), None):
        return gap.command
    for row in rows:
        if row.works is False and row.variable and row.key in {KeyVerdict.REFUSED, KeyVerdict.MISSING}:
            return "" if findings else f"export {row.variable}=… && tgp check --provider {row.provider}"
    if broken := next((row for row in rows if row.works is False), None):
        return f"tgp check -o wide --provider {broken.provider}"
    if any(row.works and row.joins for row in rows):
        return "tgp offers --join talos"
    missing = min(
        (row for row in rows if row.works is None and row.joins and row.variable),
        key=lambda row: BootMode.NATIVE not in row.boot,  # the surest way to a node; else the first
        default=None,
    )
    return f"export {missing.variable}=… && tgp check" if missing else "tgp offers"


def _block(row: CheckRow, width: int) -> Iterator[Text]:
    yield _title(row.title, MARKS[row.works] if row.joins else _NO_NODES[row.works])
    yield from _line("key", _key(row), width, "red" if row.key in {KeyVerdict.REFUSED, KeyVerdict.MISSING} else "")
    if row.account:
        yield from _line("account", row.account, width)
    if row.rights:
        yield from _rights(row.rights, width)
    if row.balance_microusd is not None:
        yield from _line("balance", dollars(row.balance_microusd), width, "" if row.can_buy else "red")
    if row.quota:
        yield from _line("quota", row.quota, width)
    if not row.can_buy:
        yield from _line("buying", "This account cannot pay now.", width, "red")
    yield from _line("offers", _offers(row), width, "" if row.offers is not None else "yellow")
    yield from _line("nodes", what_follows(row), width, "" if row.joins else "yellow")
    for note in row.notes:
        yield from _line("note", note, width, "dim")


def _title(words: str, marked: tuple[str, str]) -> Text:
    mark, style = marked
    return Text.assemble((f"{mark} ", style), (plain(words), "bold"))


def _line(label: str, words: str, width: int, style: str = "") -> list[Text]:
    margin = INDENT + " " * LABEL
    lines = wrapped(words, width, first=f"{INDENT}{label:<{LABEL}}", rest=margin, style=style)
    lines[0].stylize("dim", 0, len(margin))
    return lines


def _key(row: CheckRow) -> str:
    variable = f" ({row.variable})" if row.variable else ""
    why = f": {row.why}" if row.why else ""
    if row.key is KeyVerdict.MISSING:
        return f"missing: {row.variable}"
    return f"{row.key}{variable}{why}"


def _rights(rights: Sequence[Right], width: int) -> Iterator[Text]:
    """Granted permissions in one line; then those that are missing, and those that are unknown."""
    label = "rights"
    if held := [right.name for right in rights if right.held]:
        yield from _line(label, f"may: {', '.join(held)}", width)
        label = ""
    for right in sorted((right for right in rights if not right.held), key=lambda right: right.held is None):
        words = "may not" if right.held is False else "unknown"
        note = f" ({right.note})" if right.note else ""
        yield from _line(label, f"{words}: {right.name}{note}", width, "red" if right.held is False else "dim")
        label = ""


def _offers(row: CheckRow) -> str:
    if row.offers is None:
        return "could not be read"
    cheapest = f", a GPU-hour from {dollars(row.from_microusd)}" if row.from_microusd is not None else ""
    return f"{row.offers:,} seen{cheapest}"
