"""The last net: what is known to be secret does not pass, whoever was careless.

Values are of a type that prints nothing, and errors quote no headers, so nothing should ever be caught here; when
something is, it is counted, and that count is an alarm about us.
"""

import base64
import json
import re
from collections import OrderedDict
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from tgp.core.model.secret import Secret

MASK = "***"
SHORTEST = 6  # characters; shorter ones would blot out ordinary words
LINE_SHORTEST = 16  # characters of one line of a longer secret, such as a private key
MOST = 1024  # secrets remembered; the ones learned longest ago go first


class Redactor:
    def __init__(self) -> None:
        self.caught = 0
        self._known: OrderedDict[Secret, None] = OrderedDict()
        self._pattern: re.Pattern[str] | None = None
        self._stale = False

    def learn(self, secret: Secret) -> None:
        """From now on nothing passes that contains it, in any of its usual spellings."""
        if secret in self._known:
            self._known.move_to_end(secret)
            return
        self._known[secret] = None
        while len(self._known) > MOST:
            self._known.popitem(last=False)
        self._stale = True

    def __call__(self, text: str) -> str:
        pattern = self._current()
        if pattern is None:
            return text
        clean, hits = pattern.subn(MASK, text)
        self.caught += hits
        return clean

    def _current(self) -> re.Pattern[str] | None:
        if self._stale:
            spellings = {form for secret in self._known for form in _spellings(secret.reveal())}
            ordered = sorted(spellings, key=lambda form: (-len(form), form))  # a longer one may contain a shorter
            self._pattern = re.compile("|".join(re.escape(form) for form in ordered)) if ordered else None
            self._stale = False
        return self._pattern


def _spellings(value: str) -> Iterator[str]:
    parts = [value, *(line for line in re.split(r"[\r\n]+|\\n", value) if len(line) >= LINE_SHORTEST)]
    for part in parts:
        if len(part) >= SHORTEST:
            yield part
            yield json.dumps(part)[1:-1]
            yield quote(part, safe="")
            yield quote_plus(part)
            yield base64.b64encode(part.encode()).decode().rstrip("=")
