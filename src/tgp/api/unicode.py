"""Texts that can be written as UTF-8."""

import re

HALVES = re.compile("[\ud800-\udfff]")


def whole(text: str) -> str | None:
    """The text, with pairs of halves joined, as JSON escapes characters above 16 bits; None: a half stands alone."""
    if not HALVES.search(text):
        return text
    try:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return None
