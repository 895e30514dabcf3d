"""Bytes inside JSON: base64, or not decodable."""

import base64
import binascii
import re
from typing import Any

from tgp.sim.apiserver.undecodable import Undecodable

ALPHABET = re.compile(r"[A-Za-z0-9+/]*")


def check_base64(values: Any) -> list[bytes]:
    """The contents of a mapping of base64 texts; Undecodable at the first that is none."""
    contents = []
    for value in (values or {}).values():
        try:
            contents.append(base64.b64decode(str(value), validate=True))
        except (binascii.Error, ValueError):
            raise Undecodable(f"illegal base64 data at input byte {_first_bad(str(value))}") from None
    return contents


def _first_bad(text: str) -> int:
    match = ALPHABET.match(text)
    end = match.end() if match else 0
    return end if end < len(text) else end - end % 4
