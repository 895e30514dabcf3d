"""Lambda's errors. Only their `error.code` decides: texts may change, and a proxy has no codes."""

from datetime import timedelta

from tgp.adapters.clouds.error_answers import ErrorTable, Row, Said
from tgp.adapters.clouds.lambdalabs.facts import FACTS
from tgp.adapters.clouds.parse import object_in
from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.core.model.cloud_errors import AccountExhausted, CloudBusy, KeyRefused, OrderRefused, SoldOut
from tgp.ports.http import Reply

TITLE = FACTS.title
NO_SUCH_OBJECT = "global/object-does-not-exist"
UPSTREAM = "provider/"  # the prefix of upstream errors
_ACCOUNT = (
    Row(
        KeyRefused,
        (401,),
        ("global/invalid-api-key",),
        advice="the API key is invalid, expired or deleted; create a new one",
    ),
    Row(
        AccountExhausted,
        (400,),
        ("global/quota-exceeded",),
        advice="the account's quota is used up; Lambda's support can raise it",
    ),
    Row(
        AccountExhausted,
        (403,),
        ("global/account-inactive",),
        advice="the account is inactive: a payment method may be missing",
    ),
    Row(AccountExhausted, (403,), ("global/invalid-address",), advice="the account's billing address is invalid"),
)  # these mean the same for every call
ERRORS = ErrorTable(
    TITLE,
    orders=(
        *_ACCOUNT,
        Row(SoldOut, (400,), ("instance-operations/launch/insufficient-capacity",), advice="sold out"),
        Row(
            OrderRefused,
            (400,),
            ("instance-operations/launch/file-system-in-wrong-region",),
            advice="a file system of the order is in another region",
        ),
        Row(OrderRefused, (400,), ("global/invalid-parameters",), advice="the order is invalid"),
        Row(
            OrderRefused,
            (400, 404),
            (NO_SUCH_OBJECT,),
            advice="the type, region, image or SSH key of the order does not exist",
        ),
    ),
    looks=(*_ACCOUNT, Row(CloudBusy, texts=(UPSTREAM,))),
    trouble_pause=timedelta(seconds=10),
)


def said_in(reply: Reply, *confidences: Confidence) -> Said | None:
    """None: not in Lambda's envelope, so a proxy may have written it."""
    error = object_in(reply).get("error")
    code = error.get("code") if isinstance(error, dict) else None
    if not isinstance(code, str) or not code:
        return None
    message = error.get("message") if isinstance(error, dict) else None
    words = f"{code}: {message}" if isinstance(message, str) and message else code
    return Said(quoted(words, *confidences), code, text=code)


def is_missing(reply: Reply) -> bool:
    """True: Lambda's own code says that there is no such thing."""
    said = said_in(reply)
    return reply.status == 404 and said is not None and said.code == NO_SUCH_OBJECT
