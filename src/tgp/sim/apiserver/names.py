"""What names, labels and annotations may look like, with the API server's wording when they do not."""

import re
from collections.abc import Callable

LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?\Z")
LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?\Z")
SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\Z")
QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?\Z")

MAX_LABEL = 63
MAX_SUBDOMAIN = 253
MAX_NAME = 63

LABEL_SAYS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end "
    "with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035_SAYS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
SUBDOMAIN_SAYS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start "
    "and end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
QUALIFIED_SAYS = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE_SAYS = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _too_long(limit: int, unit: str = "characters") -> str:
    return f"must be no more than {limit} {unit}"


def is_dns_label(value: str) -> list[str]:
    why = [_too_long(MAX_LABEL)] if len(value) > MAX_LABEL else []
    if LABEL.match(value):
        return why
    return [*why, "must not contain dots" if SUBDOMAIN.match(value) else LABEL_SAYS]


def is_dns_1035_label(value: str) -> list[str]:
    why = [_too_long(MAX_LABEL)] if len(value) > MAX_LABEL else []
    return why if LABEL_1035.match(value) else [*why, LABEL_1035_SAYS]


def is_dns_subdomain(value: str) -> list[str]:
    why = [_too_long(MAX_SUBDOMAIN)] if len(value) > MAX_SUBDOMAIN else []
    return why if SUBDOMAIN.match(value) else [*why, SUBDOMAIN_SAYS]


def is_path_segment(value: str) -> list[str]:
    if value in {".", ".."}:
        return [f"may not be '{value}'"]
    return [f"may not contain '{char}'" for char in ("/", "%") if char in value]


NAME_RULES: dict[str, Callable[[str], list[str]]] = {
    "subdomain": is_dns_subdomain,
    "label": is_dns_label,
    "label1035": is_dns_1035_label,
    "segment": is_path_segment,
}


def is_qualified_name(value: str) -> list[str]:
    prefix, slash, name = value.partition("/")
    why: list[str] = []
    if not slash:
        name = value
    elif "/" in name:
        return [
            (
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
                "with an "
                "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
                "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' "
                "(e.g. 'example.com/MyName')"
            )
        ]
    elif not prefix:
        why.append("prefix part must be non-empty")
    else:
        why += [f"prefix part {text}" for text in is_dns_subdomain(prefix)]
    if not name:
        why.append("name part must be non-empty")
    elif len(name) > MAX_NAME:
        why.append(f"name part {_too_long(MAX_NAME, 'bytes')}")
    if not QUALIFIED.match(name):
        why.append(QUALIFIED_SAYS)
    return why


def is_label_value(value: str) -> list[str]:
    why = [_too_long(MAX_LABEL, "bytes")] if len(value) > MAX_LABEL else []
    return why if LABEL_VALUE.match(value) else [*why, LABEL_VALUE_SAYS]
