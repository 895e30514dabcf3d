"""The last check before output: removes every known secret.

Secrets have a type that prints nothing, and errors quote no headers, so nothing should be found here. What is
found is counted, and a count above 0 is a bug.
"""

import base64
import json
import re
from collections import Counter, OrderedDict
from collections.abc import Iterator
from itertools import islice
from urllib.parse import quote, quote_plus

from tgp.core.model.secret import Secret

MASK = "***"
SHORTEST = 6  # characters; shorter ones would hide ordinary words
LINE_SHORTEST = 16  # characters of one line of a longer secret, such as a private key
MOST = 8192  # secrets remembered: a Secret may hold several; the oldest are dropped first
LINES_MOST = 512  # of one secret: ten times a private key; a Secret of a megabyte must not stop the operator
PIECE = 48 << 10  # characters; a longer secret is matched in pieces. A multiple of three: base64 of pieces is theirs


class Redactor:
    """Each position of a text is looked up by its next characters: one lookup, however many secrets there are."""

    def __init__(self) -> None:
        self.caught = 0
        self._known: OrderedDict[Secret, None] = OrderedDict()
        self._forms: dict[str, Counter[str]] = {}  # first characters → spellings → how many secrets have this spelling

    def learn(self, secret: Secret) -> None:
        """From now on this secret is removed from every text, in each of its usual spellings."""
        if secret in self._known:
            self._known.move_to_end(secret)
            return
        self._known[secret] = None
        for form in frozenset(_spellings(secret.reveal())):
            self._forms.setdefault(form[:SHORTEST], Counter())[form] += 1
        while len(self._known) > MOST:
            self._forget(self._known.popitem(last=False)[0])

    def __call__(self, text: str) -> str:
        # Nearly every text has no such position: the fast path.
        if not self._forms or self._forms.keys().isdisjoint(
            text[place : place + SHORTEST] for place in range(len(text) - SHORTEST + 1)
        ):
            return text
        clean: list[str] = []
        start = place = 0
        while place <= len(text) - SHORTEST:
            found = self._at(text, place)
            if found:
                clean += (text[start:place], MASK)
                self.caught += 1
                start = place + found
            place += found or 1
        return "".join((*clean, text[start:])) if clean else text

    def _at(self, text: str, place: int) -> int:
        """The length of the longest secret that begins here; 0: none does."""
        forms = self._forms.get(text[place : place + SHORTEST])
        if forms is None:
            return 0
        return max((len(form) for form in forms if text.startswith(form, place)), default=0)

    def _forget(self, secret: Secret) -> None:
        for form in frozenset(_spellings(secret.reveal())):
            forms = self._forms[form[:SHORTEST]]
            forms[form] -= 1
            if not forms[form]:
                del forms[form]
            if not forms:
                del self._forms[form[:SHORTEST]]


def _spellings(value: str) -> Iterator[str]:
    pieces = [value[start : start + PIECE] for start in range(0, len(value), PIECE)]
    lines = (line for line in re.split(r"[\r\n]+|\\n", value) if LINE_SHORTEST <= len(line) <= PIECE)
    for part in (*pieces, *islice(lines, LINES_MOST)):
        if len(part) >= SHORTEST:
            yield part
            yield json.dumps(part)[1:-1]
            yield quote(part, safe="")
            yield quote_plus(part)
            yield from (part.upper(), part.lower())
            for coded in (*_in_base64(part.encode()), part.encode().hex()):
                yield from (coded, coded.upper(), coded.lower())


def _in_base64(part: bytes) -> Iterator[str]:
    """For a secret inside a longer encoded text (`Bearer …`): the characters that depend on the secret alone."""
    for before in range(3):
        coded = base64.b64encode(bytes(before) + part).decode().rstrip("=")
        first = -(-before * 8 // 6)
        whole = coded[first : (before + len(part)) * 8 // 6]
        if len(whole) >= SHORTEST:
            yield whole
