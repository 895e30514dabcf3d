"""Maps Lambda's errors. Only its `error.code` decides: texts may change, and a proxy has no codes."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType

from tgp.adapters.clouds.lambdalabs.facts import FACTS
from tgp.adapters.clouds.redact import Confidence, quoted
from tgp.core.model.cloud_errors import (
    AccountExhausted,
    CannotTell,
    CloudBusy,
    CloudError,
    KeyRefused,
    OrderRefused,
    SoldOut,
)
from tgp.ports.http import Reply, UnreadableReply

TITLE = FACTS.title
TROUBLE_PAUSE = timedelta(seconds=10)
NO_SUCH_OBJECT = "global/object-does-not-exist"
UPSTREAM = "provider/"  # the prefix of upstream errors


@dataclass(frozen=True, slots=True)
class Meaning:
    statuses: frozenset[int]
    error: type[CloudError]
    advice: str  # what to do next


# The allow-list of definite refusals: with one of these statuses and codes, and no id in the answer, nothing was made.
REFUSALS: Mapping[str, Meaning] = MappingProxyType(
    {
        "instance-operations/launch/insufficient-capacity": Meaning(frozenset({400}), SoldOut, "sold out"),
        "instance-operations/launch/file-system-in-wrong-region": Meaning(
            frozenset({400}), OrderRefused, "a file system of the order is in another region"
        ),
        "global/quota-exceeded": Meaning(
            frozenset({400}), AccountExhausted, "the account's quota is used up; Lambda's support can raise it"
        ),
        "global/invalid-parameters": Meaning(frozenset({400}), OrderRefused, "the order is invalid"),
        NO_SUCH_OBJECT: Meaning(
            frozenset({400, 404}), OrderRefused, "the type, region, image or SSH key of the order does not exist"
        ),
        "global/invalid-api-key": Meaning(
            frozenset({401}), KeyRefused, "the API key is invalid, expired or deleted; create a new one"
        ),
        "global/account-inactive": Meaning(
            frozenset({403}), AccountExhausted, "the account is inactive: a payment method may be missing"
        ),
        "global/invalid-address": Meaning(
            frozenset({403}), AccountExhausted, "the account's billing address is invalid"
        ),
    }
)
ABOUT_THE_ACCOUNT = (KeyRefused, AccountExhausted)  # these mean the same for every call


def code_of(reply: Reply) -> str:
    """Empty: not in Lambda's envelope."""
    return _part(reply, "code")


def refusal(reply: Reply, verb: str, *confidences: Confidence) -> CloudError | None:
    """The definite refusal of a change; None: the outcome is unknown."""
    if reply.status == 429:
        return CloudBusy(f"{TITLE} limits the rate of calls ({verb})", reply.retry_after)
    meaning = REFUSALS.get(code_of(reply))
    if meaning is None or reply.status not in meaning.statuses:
        return None
    return meaning.error(_words(reply, verb, meaning, *confidences))


def look_failed(reply: Reply, verb: str, *confidences: Confidence) -> CloudError:
    """The error of a failed read. Never means "absent"."""
    code = code_of(reply)
    meaning = REFUSALS.get(code)
    if meaning and reply.status in meaning.statuses and issubclass(meaning.error, ABOUT_THE_ACCOUNT):
        return meaning.error(_words(reply, verb, meaning, *confidences))
    if reply.status == 429:
        return CloudBusy(f"{TITLE} limits the rate of calls ({verb})", reply.retry_after)
    if reply.status >= 500 or code.startswith(UPSTREAM):
        return CloudBusy(f"{TITLE} failed ({verb}): {answered(reply, *confidences)}", TROUBLE_PAUSE)
    return CannotTell(f"{TITLE} answered {answered(reply, *confidences)} to {verb}")


def answered(reply: Reply, *confidences: Confidence) -> str:
    """Status and code, for messages."""
    return f"{reply.status} {quoted(code_of(reply), *confidences)}".rstrip()


def _words(reply: Reply, verb: str, meaning: Meaning, *confidences: Confidence) -> str:
    said = quoted(_part(reply, "message"), *confidences)
    return f"{TITLE} refused {verb}: {meaning.advice} ({code_of(reply)}: {said})"


def _part(reply: Reply, name: str) -> str:
    try:
        body = reply.json()
    except UnreadableReply:
        return ""
    error = body.get("error") if isinstance(body, dict) else None
    value = error.get(name) if isinstance(error, dict) else None
    return value if isinstance(value, str) else ""
