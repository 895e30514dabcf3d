"""Vultr's errors. They have no codes, only `{"error": "text", "status": n}`: a listed status and this very envelope
make a definite refusal, and the text says which. None of the texts is documented.
"""

from datetime import timedelta

from tgp.adapters.clouds.error_answers import ErrorTable, Row, Said
from tgp.adapters.clouds.parse import object_in
from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.core.model.cloud_errors import AccountExhausted, KeyRefused, OrderRefused, SoldOut
from tgp.ports.http import Reply

TITLE = FACTS.title
TROUBLE_PAUSE = timedelta(seconds=10)
MISSING = 404
MALFORMED = (400, MISSING)  # documented: the request is malformed, or refers to something that does not exist

EMPTY = ("not available", "unavailable", "out of stock", "sold out", "no capacity", "insufficient capacity")
SPENT = (
    "insufficient funds",
    "insufficient credit",
    "insufficient balance",
    "payment",
    "limit",
    "quota",
    "maximum number",
)
_KEY = (
    Row(
        KeyRefused,
        (401,),
        advice="the API key is invalid, or this address is not in the key's access control list at Vultr",
    ),
    Row(KeyRefused, (403,), advice="the user of the API key does not have the permission"),
)
ERRORS = ErrorTable(
    TITLE,
    orders=(
        *_KEY,
        Row(AccountExhausted, MALFORMED, texts=SPENT, advice="the account's limit is reached"),
        Row(SoldOut, MALFORMED, texts=EMPTY, advice="sold out"),
        Row(OrderRefused, MALFORMED),  # any other text
    ),
    looks=_KEY,
    trouble_pause=TROUBLE_PAUSE,
)


def said_in(reply: Reply, *confidences: Confidence) -> Said | None:
    """None: not in Vultr's envelope."""
    body = object_in(reply)
    text = body.get("error")
    if body.get("status") != reply.status or not isinstance(text, str):
        return None
    return Said(quoted(text, *confidences), text=text.lower())
