"""How much is tried: what `make test` tries of what could be tried for hours, and the more that `make prove` does.

Every kind of thing is tried by both, and a fifth of the usual amount by `make check`. Where an amount has a variable of
its own, that overrules all.
"""

import os

PROVING = os.environ.get("TGP_PROVE", "") == "1"
QUICK = os.environ.get("TGP_QUICK", "") == "1"
FIFTH = 5


def amount(usual: int, proving: int, variable: str = "") -> int:
    said = os.environ.get(variable, "") if variable else ""
    if said:
        return int(said)
    if QUICK:
        return max(1, usual // FIFTH)
    return proving if PROVING else usual
