"""In which account the machine of an attempt is looked for. Tenants may write statuses: a record is no proof."""

from msgspec.structs import replace

from tgp.api.request import Attempt, GPURequest
from tgp.core.model.cloud_account import TABLE, CloudAccount
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.presence import AccountProblem, Unknown
from tgp.core.model.token import plain_uid, read_token


def has_foreign_token(record: KubeObject[GPURequest], attempt: Attempt) -> bool:
    """Whether the token names another request: then it is not looked for."""
    token = read_token(attempt.token)
    return token is not None and token.uid != plain_uid(record.uid_text)


def foreign(attempt: Attempt) -> Unknown:
    return Unknown(AccountProblem.ACCOUNT_UNKNOWN, f"Attempt {attempt.number} carries the token of another request.")


def unresolved(attempt: Attempt, namespace: str) -> Unknown:
    """With the next step for an administrator."""
    named = f"account {attempt.account}, which" if attempt.account else "no account: its id"
    return Unknown(
        AccountProblem.ACCOUNT_UNKNOWN,
        f"Attempt {attempt.number} names {named} is not in ConfigMap {namespace}/{TABLE}. No provider is asked and "
        "nothing is bought again. Restore that line, or add the provider to a class. If no machine was launched, "
        "delete the request and remove its finalizer.",
    )


def moved(attempt: Attempt, account: CloudAccount) -> Attempt:
    """Its own token is listed in another account than its record says: the record was edited, and is corrected."""
    offer = replace(attempt.offer, provider=account.provider) if attempt.offer is not None else None
    return replace(attempt, account=account.id, offer=offer)
