"""One line of a user's template, safe to show: what looks like a secret is hidden.

A template should have variables for secrets, but users also paste configs with real ones.
"""

import re

from tgp.core.joining.talos.variables import ACTION

HIDDEN = "***"
LONGEST = 400  # characters; a certificate on one line has thousands

_HELD = "\x01"  # stands for a variable, which is not secret
_KEYED = re.compile(r"""^(\s*(?:-\s+)*)(["']?)([A-Za-z0-9_./-]+)\2(\s*:\s+)(\S.*)$""")
_SECRET_KEY = re.compile(
    r"content|id|(?:.*[._-])?(?:key|auth)|.*(?:key|secret|token|pass(?:word|phrase)?)", re.IGNORECASE
)
_BLOCK = re.compile(r"[|>][-+0-9]*")
# TS_AUTHKEY=…, --auth-key=…, {token: …}: with a sign between name and value; or --authkey …, password …, with none.
_NAME = r"[A-Za-z0-9_-]*(?:key|secret|token|passw(?:or)?d|passphrase|auth)"
_SIGNED = re.compile(rf"""({_NAME}["']?\s*[=:]\s*)([^\s,}}\]]+)""", re.IGNORECASE)
_FOLLOWED = re.compile(rf"(?:^|(?<=\s))({_NAME}\s+)(\S+)", re.IGNORECASE)
_IN_URL = re.compile(r"(?<=://)[^/@\s]+@")
_TOKEN = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")
_LONG = re.compile(r"[A-Za-z0-9+/=_-]{20,}")
_PLACE = re.compile(r"""["']?(?:file:)?/(?:etc|opt|run|system|tmp|usr|var)/""")  # the path of a secret is not secret


def shown(line: str) -> str:
    """Safe to show. Rather hides one word too many than one too few."""
    variables = [found[0] for found in ACTION.finditer(line)]
    text = ACTION.sub(_HELD, line.replace(_HELD, "").rstrip())
    found = _KEYED.match(text)
    if found and _SECRET_KEY.fullmatch(found[3]) and not _harmless(found[5]):
        text = f"{text[: found.start(5)]}{HIDDEN}"
    text = _SIGNED.sub(_unnamed, text)
    if found is None:  # not YAML: a script, or the content of a file
        text = _FOLLOWED.sub(_unnamed, text)
    text = _TOKEN.sub(HIDDEN, _IN_URL.sub(f"{HIDDEN}@", text))
    text = _LONG.sub(lambda word: HIDDEN if _random(word[0]) else word[0], text)
    text = text if len(text) <= LONGEST else text[:LONGEST] + "…"
    for variable in variables:
        text = text.replace(_HELD, variable, 1)
    return text


def _unnamed(found: re.Match[str]) -> str:
    name, value = found.groups()
    return found[0] if _harmless(value) or _PLACE.match(value) else f"{name}{HIDDEN}"


def _harmless(value: str) -> bool:
    """Only variables, or the start of a block on the next lines."""
    bare = value.split(" #", 1)[0].strip().strip("\"'")
    return not bare.strip(f"{_HELD}{HIDDEN}{{[") or bool(_BLOCK.fullmatch(bare))


def _random(word: str) -> bool:
    """Letters and digits mixed, as in keys and base64, and rarely in file names."""
    return any(char.isdigit() for char in word) and any(char.isalpha() for char in word)
