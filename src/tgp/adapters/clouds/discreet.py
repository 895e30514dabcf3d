"""A provider's own words for people, without what we told it in confidence: an error may quote what it refuses."""

import re
from typing import TypeAlias

from tgp.adapters.clouds.reading import shown
from tgp.core.model.secret import Secret

Confidence: TypeAlias = bytes | Secret | None  # user data, a key; None: there is none

SHORTEST_SECRET = 6  # characters; a shorter word of user data (`true`, `eth0`) gives nothing away
WORD = re.compile(r"[^\s\"'`,;()\[\]{}<>]+")
HIDDEN = "***"


def quoted(words: str, *confidences: Confidence) -> str:
    """`words`, shortened, with every word hidden that stands in one of `confidences` (keys, user data) too."""
    secrets = [each.reveal().encode() if isinstance(each, Secret) else each for each in confidences if each]
    return shown(WORD.sub(lambda found: _hidden(found[0], secrets), shown(words)))


def _hidden(word: str, secrets: list[bytes]) -> str:
    bare = word.strip(".:!?=").encode()
    if len(bare) < SHORTEST_SECRET:
        return word
    return HIDDEN if any(bare in secret for secret in secrets) or any(secret in bare for secret in secrets) else word
