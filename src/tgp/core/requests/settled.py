"""Whether anything may exist that is not recorded: what lists have shown since any earlier order would be listed."""

from tgp.core.model.presence import AccountProblem
from tgp.core.requests.observation import AccessObservation, RequestObservation
from tgp.core.requests.provider_reports import BELIEVED_AFTER

NO_KEY = (AccountProblem.CREDENTIALS_MISSING, AccountProblem.CREDENTIALS_REFUSED)


def settled(observation: RequestObservation) -> bool:
    """Our finalizer and no attempts: the status was erased, unless we added the finalizer just now.

    Then every provider has to be listed, for as long as an order may be late, before anything is decided.
    """
    if observation.attempts or observation.blank:
        return True
    return all(_shows_everything(observation, access) for access in observation.accesses.values())


def listed_everywhere(observation: RequestObservation, where: str) -> bool:
    """Was each provider that answers listed since the time any order would show, and this one for certain?"""
    return all(
        access.listed_since(access.settles_at) or (name != where and access.problem is not None)
        for name, access in observation.accesses.items()
    )


def _shows_everything(observation: RequestObservation, access: AccessObservation) -> bool:
    if access.never_used and access.problem is AccountProblem.CREDENTIALS_MISSING:
        return True  # there is nothing a list could show: an account is recorded before its first order
    if observation.waited:
        # The key may be missing for good: a request that only waited so far does not wait for that as well.
        return access.listed_since(access.settles_at) or access.problem in NO_KEY
    doubted = observation.shown_by_node or access.distrusted  # lists contradict the Nodes: an hour longer
    return access.listed_since(access.settles_at + (BELIEVED_AFTER.total_seconds() if doubted else 0.0))
