"""The name of the Node that a machine becomes: made of the request's own name and token, never read from a status."""

from hashlib import blake2b

from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.key import Key

NAME_KEPT = 54  # characters of a request's name in its Node's
SUFFIX_BYTES = 4


def node_name_for(request: Key, token: str, account: CloudAccount | None = None) -> str:
    """Reserved before anything is bought: of a machine you own its own name, else one that no other attempt has.

    Without dots: Talos takes what stands before the first for the host's name, and registers that.
    """
    if account is not None and account.owned:
        return account.settings.machines[0].name
    suffix = blake2b(token.encode(), digest_size=SUFFIX_BYTES).hexdigest()
    return f"{request.name.replace('.', '-')[:NAME_KEPT].rstrip('-')}-{suffix}"
