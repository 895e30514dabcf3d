"""What `tgp talos check` found in templates: summary, exit code and document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from tgp.core.joining.talos.class_templates import ClassTemplate
from tgp.core.joining.talos.fitting import Fit
from tgp.core.model.machine_config import ConfigFinding, Conversion, Severity
from tgp.core.model.text import plain
from tgp.services.documents import API_VERSION, ApiVersion


class TemplatePlace(TypedDict):
    line: int | None
    fileLine: int | None
    path: str
    message: str


class TemplateFinding(TemplatePlace):
    severity: str


class BootsItem(TypedDict):
    name: str
    boots: bool
    message: str


class TemplateItem(TypedDict):
    title: str
    talos: str
    backend: str
    template: bool
    fine: bool
    summary: str
    findings: list[TemplateFinding]
    conversions: list[TemplatePlace]
    providers: list[BootsItem]


class TemplateCheck(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["TemplateCheck"]
    templates: list[TemplateItem]
    exitCode: int


FINE, FOUND = 0, 1


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


def exit_code(examined: Sequence[Examined]) -> int:
    return FINE if all(each.fine for each in examined) else FOUND


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


def template_check(examined: Sequence[Examined]) -> TemplateCheck:
    return TemplateCheck(
        apiVersion=API_VERSION,
        kind="TemplateCheck",
        templates=[_template_item(each) for each in examined],
        exitCode=exit_code(examined),
    )


def line_of(class_template: ClassTemplate, line: int) -> int:
    """The line in the file, if the template's lines are the file's."""
    return line + (class_template.before or 0) if line else 0


def _template_item(each: Examined) -> TemplateItem:
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
        "fileLine": line_of(class_template, remark.line)
        if remark.line and class_template.source and class_template.before is not None
        else None,
        "path": remark.path,
        "message": plain(remark.message),
    }


def _count(number: int, word: str) -> str:
    return f"one {word}" if number == 1 else f"{number} {word}s"
