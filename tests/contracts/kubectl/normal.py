"""What two servers may differ in and still agree: ids, versions, times, ages, addresses, and column widths."""

import re

_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<uid>"),
    (re.compile(r'(resourceVersion"?: )"\d+"'), r'\1"<version>"'),
    (re.compile(r"(resourceVersion: |Resource Version: +)\d+"), r"\1<version>"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "<time>"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4} UTC"), "<time>"),
    (re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "<time>"),
    # Scripts end within minutes, so only seconds and single minutes can be ages here; hours are left to be compared.
    (re.compile(r"(?<![\w.])(\d{1,3}s|[2-9]m(\d{1,2}s)?)(?![\w.])"), "<age>"),
    (re.compile(r"https?://127\.0\.0\.1:\d+"), "<server>"),
    (re.compile(r"\b10\.0\.0\.\d+\b"), "<service address>"),
    (re.compile(r"(?<=\S)[ \t]{2,}"), "  "),
)


def normal(text: str) -> str:
    """The text with everything replaced that depends on when and where it was printed."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return "\n".join(line.rstrip() for line in text.splitlines())
