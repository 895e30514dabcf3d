"""What `tgp talos check` says of a template: line by line, as a compiler would, and what becomes of what is old."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.console import Group
from rich.text import Text

from tgp.api.talos import TEMPLATE_MAX
from tgp.core.model.machine_config import Conversion, Finding, Severity
from tgp.core.rules.talos.fitting import Fit, fit
from tgp.core.rules.talos.render import inert_text, inspect
from tgp.core.rules.talos.sheets import Sheet
from tgp.core.rules.talos.source_line import shown
from tgp.ports.cloud import CloudFacts
from tgp.surfaces.cli.next_step import next_lines
from tgp.surfaces.cli.output import document, wrapped
from tgp.surfaces.terminal.scene import plain

FINE, FOUND = 0, 1
ERROR, WARNING, CONVERTED, UNCHECKED = ("✗", "red"), ("!", "yellow"), ("→", "cyan"), ("?", "magenta")
MARKS = {Severity.ERROR: ERROR, Severity.WARNING: WARNING, Severity.UNCHECKED: UNCHECKED}
FITS, NO_FIT = "✓", "-"
RULE = "│"


@dataclass(frozen=True, slots=True)
class Examined:
    sheet: Sheet
    conversions: tuple[Conversion, ...] = ()
    findings: tuple[Finding, ...] = ()
    fits: tuple[Fit, ...] = ()  # by provider; empty: nothing can be told, or it is refused

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)

    @property
    def boots(self) -> bool:
        """Somewhere, as far as it can be told."""
        return not self.fits or any(each.boots for each in self.fits)

    @property
    def fine(self) -> bool:
        told = self.errors or self.warnings or self.sheet.unread
        return not told and self.boots and not any(each.too_large for each in self.fits)


def examine(sheet: Sheet, facts: Callable[[str], CloudFacts]) -> Examined:
    """`facts`: of a provider."""
    if sheet.unread:
        return Examined(sheet)
    conversions, findings = inspect(
        sheet.template, sheet.version, backend=sheet.backend, kubelet_image=sheet.kubelet_image
    )
    examined = Examined(sheet, conversions, (*findings, *_too_long(sheet)))
    return examined if examined.errors else replace(examined, fits=_fits(sheet, facts))


def _too_long(sheet: Sheet) -> Iterator[Finding]:
    """Of a template in a file: a class would not hold it."""
    length = len(sheet.template or "")
    if sheet.source and length > TEMPLATE_MAX:
        why = f"has {length:,} characters, and a class holds {TEMPLATE_MAX:,}: use machineConfigSecretRef"
        yield Finding(0, "", why, Severity.WARNING)


def _fits(sheet: Sheet, facts: Callable[[str], CloudFacts]) -> tuple[Fit, ...]:
    text = inert_text(sheet.template, sheet.version, backend=sheet.backend, kubelet_image=sheet.kubelet_image)
    known = [facts(name) for name in sheet.providers]
    return tuple(
        fit(each.provider, each.title, each.boot, limit=each.user_data_bytes, text=text, version=sheet.version)
        for each in known
    )


def exit_code(examined: Sequence[Examined]) -> int:
    return FINE if all(each.fine for each in examined) else FOUND


def render(examined: Sequence[Examined], width: int, following: str = "") -> Group:
    """`following`: the command that shows what became of it."""
    lines: list[Text] = []
    for number, each in enumerate(examined):
        lines += [*([Text()] if number else []), *_of(each, width)]
    if following and exit_code(examined) == FINE:
        lines += next_lines(following)
    return Group(*lines)


def summary(each: Examined) -> str:
    sheet, errors, converted = each.sheet, len(each.errors), len(each.conversions)
    if sheet.unread:
        return f"Nobody can tell: {sheet.unread}."
    if errors:
        return f"Refused for {_count(errors, 'reason')}: no machine is bought with it."
    if not each.boots:
        large = any(one.too_large for one in each.fits)
        return "Too large for every provider here that boots Talos." if large else "No provider here boots Talos."
    warned = f", with {_count(len(each.warnings), 'warning')}" if each.warnings else ""
    if sheet.template is None:
        return f"There is no template: a whole config is generated, and it boots{warned}."
    if converted:
        old = f"{_count(converted, 'thing')} of an older kind {_become(converted)} what Talos has today"
        return f"It boots{warned}. {old[:1].upper()}{old[1:]}."
    return f"It boots as it is written{warned}."


def as_document(examined: Sequence[Examined]) -> dict[str, Any]:
    return document("TemplateCheck", templates=[_item(each) for each in examined], exitCode=exit_code(examined))


# ----


def _of(each: Examined, width: int) -> Iterator[Text]:
    sheet = each.sheet
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(plain(sheet.title), "bold")
    title.append(f"  Talos {sheet.version}, joining by {sheet.backend}", "dim")
    yield title
    said: tuple[Finding | Conversion, ...] = (*each.findings, *each.conversions)
    remarks = [(remark.line, number, remark) for number, remark in enumerate(said)]
    source = sheet.template.splitlines() if sheet.template is not None else []
    gutter = len(str(max((_line(sheet, line) for line, _, _ in remarks), default=0)))
    before = -1
    for line, _, remark in sorted(remarks, key=lambda remark: (remark[0] == 0, remark[:2])):
        if line != before and 0 < line <= len(source):
            yield _source(source[line - 1], _line(sheet, line), gutter, width)
        before = line
        yield from _remark(remark, gutter, width)
    if remarks:
        yield Text()
    lost = each.errors or sheet.unread or not each.boots
    mark, style = ("✓", "green") if each.fine else ERROR if lost else WARNING
    yield from wrapped(summary(each), width, first=f"{mark} ", rest="  ", style=f"bold {style}")
    for one in each.fits:
        sign = FITS if one.boots else ERROR[0] if one.too_large else NO_FIT
        yield from wrapped(f"{one.provider}: {one.words}", width, first=f"  {sign} ", rest="    ")


def _line(sheet: Sheet, line: int) -> int:
    """As the file counts, where the template's lines are the file's."""
    return line + (sheet.before or 0) if line else 0


def _source(text: str, line: int, gutter: int, width: int) -> Text:
    shown_line = Text(no_wrap=True, overflow="ellipsis")
    shown_line.append(f"{line:>{gutter}} {RULE} ", "dim")
    seen = shown(text).expandtabs()
    shown_line.append(" " * (len(seen) - len(seen.lstrip())) + plain(seen))  # a place is known by its indentation
    shown_line.truncate(width, overflow="ellipsis")
    return shown_line


def _remark(remark: Finding | Conversion, gutter: int, width: int) -> Iterator[Text]:
    mark, style = CONVERTED
    if isinstance(remark, Finding):
        mark, style = MARKS[remark.severity]
    words = f"{remark.path}: {remark.message}" if remark.path else remark.message
    start = " " * gutter + f" {mark} "
    for number, line in enumerate(wrapped(words, width, first=start, rest=" " * len(start))):
        if number == 0:
            line.stylize(style, gutter + 1, gutter + 2)
            line.stylize("bold", len(start), len(start) + len(plain(remark.path)))
        yield line


def _item(each: Examined) -> dict[str, Any]:
    sheet = each.sheet
    return {
        "title": sheet.title,
        "talos": str(sheet.version),
        "backend": str(sheet.backend),
        "template": sheet.template is not None,
        "fine": each.fine,
        "summary": plain(summary(each)),
        "findings": [
            {**_place(finding, sheet), "severity": str(finding.severity)} for finding in sorted(each.findings)
        ],
        "conversions": [_place(conversion, sheet) for conversion in each.conversions],
        "providers": [{"name": one.provider, "boots": one.boots, "message": plain(one.words)} for one in each.fits],
    }


def _place(remark: Finding | Conversion, sheet: Sheet) -> dict[str, Any]:
    return {
        "line": remark.line or None,  # of the template
        "fileLine": _line(sheet, remark.line) if remark.line and sheet.source and sheet.before is not None else None,
        "path": remark.path,
        "message": plain(remark.message),
    }


def _count(number: int, word: str) -> str:
    return f"one {word}" if number == 1 else f"{number} {word}s"


def _become(number: int) -> str:
    return "becomes" if number == 1 else "become"
