"""The Node name of a machine: derived from the request's name and token, never read from a status."""

from hashlib import blake2b

from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.object_key import ObjectKey

NAME_KEPT = 54  # characters of a request's name in its Node's
SUFFIX_BYTES = 4


def node_name_for(request: ObjectKey, token: str, account: CloudAccount | None = None) -> str:
    """Reserved before the purchase: the own name of a machine you own, else a name that no other attempt has.

    Without dots: Talos takes the part before the first dot as hostname, and registers that.
    """
    if account is not None and account.owned:
        return account.settings.machines[0].name
    suffix = blake2b(token.encode(), digest_size=SUFFIX_BYTES).hexdigest()
    return f"{request.name.replace('.', '-')[:NAME_KEPT].rstrip('-')}-{suffix}"
