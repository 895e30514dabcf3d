r"""Go's regular expressions (RE2), run by Python's.

CRD patterns and CEL's `matches` are RE2. Two of its habits differ from Python's: `$` means the very end of the text,
not "before a last newline", and `\d`, `\w`, `\s` know ASCII only. Both are translated; the rest of what CRDs use is
written the same way.
"""

import re
from functools import lru_cache

PATTERNS_KEPT = 512  # compiled ones; our own kinds have about sixty


@lru_cache(maxsize=PATTERNS_KEPT)
def compiled(pattern: str) -> re.Pattern[str]:
    r"""Raises re.error for a pattern that Python cannot read (`\p{…}`, for one)."""
    return re.compile(_end_of_text(pattern), re.ASCII)


def matches(text: str, pattern: str) -> bool:
    """Does the pattern match anywhere in the text? As in CEL and OpenAPI, anchors are the pattern's own business."""
    return compiled(pattern).search(text) is not None


def _end_of_text(pattern: str) -> str:
    r"""Write `\Z` for each `$` that is neither escaped nor inside brackets, and for RE2's own `\z`."""
    out: list[str] = []
    in_brackets = False
    position = 0
    while position < len(pattern):
        sign = pattern[position]
        if sign == "\\" and position + 1 < len(pattern):
            pair = pattern[position : position + 2]
            out.append(r"\Z" if pair == r"\z" else pair)
            position += 2
            continue
        if sign == "[" and not in_brackets:
            in_brackets = True
            # A bracket right after the opening one, or after ^, is a plain member.
            lead = 2 if pattern[position + 1 : position + 2] == "^" else 1
            if pattern[position + lead : position + lead + 1] == "]":
                lead += 1
                out.append(pattern[position : position + lead - 1] + r"\]")
            else:
                out.append(pattern[position : position + lead])
            position += lead
            continue
        if sign == "]":
            in_brackets = False
        out.append(r"\Z" if sign == "$" and not in_brackets else sign)
        position += 1
    return "".join(out)
