"""One line of somebody's template as it may stand on a screen: whatever looks like a secret in it is hidden.

A template should hold variables where secrets go, and people paste configs in which they are written out.
"""

import re

from tgp.core.rules.talos.variables import ACTION

HIDDEN = "***"
LONGEST = 400  # characters; a certificate on one line has thousands

_HELD = "\x01"  # stands for a variable, which tells nothing
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
_PLACE = re.compile(r"""["']?(?:file:)?/(?:etc|opt|run|system|tmp|usr|var)/""")  # where a secret lies is none itself


def shown(line: str) -> str:
    """As people may see it. Better one word too many hidden than one too few."""
    variables = [found[0] for found in ACTION.finditer(line)]
    text = ACTION.sub(_HELD, line.replace(_HELD, "").rstrip())
    found = _KEYED.match(text)
    if found and _SECRET_KEY.fullmatch(found[3]) and not _harmless(found[5]):
        text = f"{text[: found.start(5)]}{HIDDEN}"
    text = _SIGNED.sub(_unnamed, text)
    if found is None:  # not of YAML: of a script, or of whatever a file holds
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
    """Nothing but variables, or the beginning of something that stands elsewhere."""
    bare = value.split(" #", 1)[0].strip().strip("\"'")
    return not bare.strip(f"{_HELD}{HIDDEN}{{[") or bool(_BLOCK.fullmatch(bare))


def _random(word: str) -> bool:
    """Letters and digits mixed, as keys and base64 are, and names of files hardly ever."""
    return any(char.isdigit() for char in word) and any(char.isalpha() for char in word)
