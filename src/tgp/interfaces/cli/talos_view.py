"""What `tgp talos check` prints: findings line by line, as a compiler does, and what was converted."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from rich.console import Group
from rich.text import Text

from tgp.api.talos import TEMPLATE_MAX
from tgp.core.joining.talos.class_templates import ClassTemplate
from tgp.core.joining.talos.fitting import Fit, fit
from tgp.core.joining.talos.redacted_line import shown
from tgp.core.joining.talos.render import inert_text, inspect
from tgp.core.model.machine_config import ConfigFinding, Conversion, Severity
from tgp.core.model.provider_facts import CloudFacts
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import wrapped
from tgp.interfaces.documents import API_VERSION
from tgp.interfaces.documents.setup import TemplateCheck, TemplateItem, TemplatePlace
from tgp.interfaces.terminal.snapshot import plain

FINE, FOUND = 0, 1
ERROR, WARNING, CONVERTED, UNCHECKED = ("✗", "red"), ("!", "yellow"), ("→", "cyan"), ("?", "magenta")
MARKS = {Severity.ERROR: ERROR, Severity.WARNING: WARNING, Severity.UNCHECKED: UNCHECKED}
FITS, NO_FIT = "✓", "-"
RULE = "│"


@dataclass(frozen=True, slots=True)
class Examined:
    class_template: ClassTemplate
    conversions: tuple[Conversion, ...] = ()
    findings: tuple[ConfigFinding, ...] = ()
    fits: tuple[Fit, ...] = ()  # by provider; empty: unknown, or the template has errors

    @property
    def errors(self) -> tuple[ConfigFinding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[ConfigFinding, ...]:
        return tuple(finding for finding in self.findings if finding.severity is Severity.WARNING)

    @property
    def boots(self) -> bool:
        """At some provider, or unknown."""
        return not self.fits or any(each.boots for each in self.fits)

    @property
    def fine(self) -> bool:
        found = self.errors or self.warnings or self.class_template.unread
        return not found and self.boots and not any(each.too_large for each in self.fits)


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


def exit_code(examined: Sequence[Examined]) -> int:
    return FINE if all(each.fine for each in examined) else FOUND


def render(examined: Sequence[Examined], width: int, following: str = "") -> Group:
    """`following`: the command that prints the converted config."""
    lines: list[Text] = []
    for number, each in enumerate(examined):
        lines += [*([Text()] if number else []), *_of(each, width)]
    if following and exit_code(examined) == FINE:
        lines += next_lines(following)
    return Group(*lines)


def summary(each: Examined) -> str:
    class_template, errors, converted = each.class_template, len(each.errors), len(each.conversions)
    if class_template.unread:
        return f"Unknown: {class_template.unread}."
    if errors:
        return f"The template has {_count(errors, 'error')}: no machine is bought with it."
    if not each.boots:
        large = any(one.too_large for one in each.fits)
        return (
            "The config is too large for every provider here that boots Talos."
            if large
            else "No provider here boots Talos."
        )
    warned = f", with {_count(len(each.warnings), 'warning')}" if each.warnings else ""
    if class_template.template is None:
        return f"There is no template: the config is generated, and it boots{warned}."
    if converted:
        return f"The template boots{warned}, after {_count(converted, 'conversion')} to current Talos settings."
    return f"The template boots as written{warned}."


def as_document(examined: Sequence[Examined]) -> TemplateCheck:
    return TemplateCheck(
        apiVersion=API_VERSION,
        kind="TemplateCheck",
        templates=[_item(each) for each in examined],
        exitCode=exit_code(examined),
    )


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
    gutter = len(str(max((_line(class_template, line) for line, _, _ in remarks), default=0)))
    before = -1
    for line, _, remark in sorted(remarks, key=lambda remark: (remark[0] == 0, remark[:2])):
        if line != before and 0 < line <= len(source):
            yield _source(source[line - 1], _line(class_template, line), gutter, width)
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


def _line(class_template: ClassTemplate, line: int) -> int:
    """The line in the file, if the template's lines are the file's."""
    return line + (class_template.before or 0) if line else 0


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


def _item(each: Examined) -> TemplateItem:
    class_template = each.class_template
    return {
        "title": class_template.title,
        "talos": str(class_template.version),
        "backend": str(class_template.backend),
        "template": class_template.template is not None,
        "fine": each.fine,
        "summary": plain(summary(each)),
        "findings": [
            {**_place(finding, class_template), "severity": str(finding.severity)} for finding in sorted(each.findings)
        ],
        "conversions": [_place(conversion, class_template) for conversion in each.conversions],
        "providers": [{"name": one.provider, "boots": one.boots, "message": plain(one.words)} for one in each.fits],
    }


def _place(remark: ConfigFinding | Conversion, class_template: ClassTemplate) -> TemplatePlace:
    return {
        "line": remark.line or None,  # of the template
        "fileLine": _line(class_template, remark.line)
        if remark.line and class_template.source and class_template.before is not None
        else None,
        "path": remark.path,
        "message": plain(remark.message),
    }


def _count(number: int, word: str) -> str:
    return f"one {word}" if number == 1 else f"{number} {word}s"
