"""What `tgp talos check` prints: findings line by line, as a compiler does, and what was converted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from rich.console import Group
from rich.text import Text

from tgp.api.talos import TEMPLATE_MAX
from tgp.core.joining.talos.class_templates import ClassTemplate
from tgp.core.joining.talos.fitting import Fit, fit
from tgp.core.joining.talos.redacted_line import shown
from tgp.core.joining.talos.render import inert_text, inspect
from tgp.core.model.machine_config import ConfigFinding, Conversion, Severity
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.text import plain
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import wrapped
from tgp.services.documents.templates import (
    FINE,
    Examined,
    exit_code,
    line_of,
    summary,
)

ERROR, WARNING, CONVERTED, UNCHECKED = ("✗", "red"), ("!", "yellow"), ("→", "cyan"), ("?", "magenta")
MARKS = {Severity.ERROR: ERROR, Severity.WARNING: WARNING, Severity.UNCHECKED: UNCHECKED}
FITS, NO_FIT = "✓", "-"
RULE = "│"


def examine(class_template: ClassTemplate, facts: Callable[[str], CloudFacts]) -> Examined:
    """`facts`: of a provider."""
    if class_template.unread:
        return Examined(class_template)
    conversions, findings = inspect(
        class_template.template,
        class_template.version,
        backend=class_template.backend,
        kubelet_image=class_template.kubelet_image,
    )
    examined = Examined(class_template, conversions, (*findings, *_too_long(class_template)))
    return examined if examined.errors else replace(examined, fits=_fits(class_template, facts))


def _too_long(class_template: ClassTemplate) -> Iterator[ConfigFinding]:
    """A template in a file may be too long for a class."""
    length = len(class_template.template or "")
    if class_template.source and length > TEMPLATE_MAX:
        why = f"has {length:,} characters; a class holds at most {TEMPLATE_MAX:,}: use machineConfigSecretRef"
        yield ConfigFinding(0, "", why, Severity.WARNING)


def _fits(class_template: ClassTemplate, facts: Callable[[str], CloudFacts]) -> tuple[Fit, ...]:
    text = inert_text(
        class_template.template,
        class_template.version,
        backend=class_template.backend,
        kubelet_image=class_template.kubelet_image,
    )
    return tuple(fit(facts(name), text=text, version=class_template.version) for name in class_template.providers)


def render(examined: Sequence[Examined], width: int, following: str = "") -> Group:
    """`following`: the command that prints the converted config."""
    lines: list[Text] = []
    for number, each in enumerate(examined):
        lines += [*([Text()] if number else []), *_of(each, width)]
    if following and exit_code(examined) == FINE:
        lines += next_lines(following)
    return Group(*lines)


# ----


def _of(each: Examined, width: int) -> Iterator[Text]:
    class_template = each.class_template
    title = Text(no_wrap=True, overflow="ellipsis")
    title.append(plain(class_template.title), "bold")
    title.append(f"  Talos {class_template.version}, joining by {class_template.backend}", "dim")
    yield title
    said: tuple[ConfigFinding | Conversion, ...] = (*each.findings, *each.conversions)
    remarks = [(remark.line, number, remark) for number, remark in enumerate(said)]
    source = class_template.template.splitlines() if class_template.template is not None else []
    gutter = len(str(max((line_of(class_template, line) for line, _, _ in remarks), default=0)))
    before = -1
    for line, _, remark in sorted(remarks, key=lambda remark: (remark[0] == 0, remark[:2])):
        if line != before and 0 < line <= len(source):
            yield _source(source[line - 1], line_of(class_template, line), gutter, width)
        before = line
        yield from _remark(remark, gutter, width)
    if remarks:
        yield Text()
    lost = each.errors or class_template.unread or not each.boots
    mark, style = ("✓", "green") if each.fine else ERROR if lost else WARNING
    yield from wrapped(summary(each), width, first=f"{mark} ", rest="  ", style=f"bold {style}")
    for one in each.fits:
        sign = FITS if one.boots else ERROR[0] if one.too_large else NO_FIT
        yield from wrapped(f"{one.provider}: {one.words}", width, first=f"  {sign} ", rest="    ")


def _source(text: str, line: int, gutter: int, width: int) -> Text:
    shown_line = Text(no_wrap=True, overflow="ellipsis")
    shown_line.append(f"{line:>{gutter}} {RULE} ", "dim")
    seen = shown(text).expandtabs()
    shown_line.append(" " * (len(seen) - len(seen.lstrip())) + plain(seen))  # the indentation shows the place
    shown_line.truncate(width, overflow="ellipsis")
    return shown_line


def _remark(remark: ConfigFinding | Conversion, gutter: int, width: int) -> Iterator[Text]:
    mark, style = CONVERTED
    if isinstance(remark, ConfigFinding):
        mark, style = MARKS[remark.severity]
    words = f"{remark.path}: {remark.message}" if remark.path else remark.message
    start = " " * gutter + f" {mark} "
    for number, line in enumerate(wrapped(words, width, first=start, rest=" " * len(start))):
        if number == 0:
            line.stylize(style, gutter + 1, gutter + 2)
            line.stylize("bold", len(start), len(start) + len(plain(remark.path)))
        yield line
