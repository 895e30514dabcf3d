"""How requests are filed, so that what concerns one finds it."""

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.token import plain_uid
from tgp.core.model.typed import Typed
from tgp.core.rules.costs import class_of

BY_NODE_CLASS = "nodeClass"
BY_NODE = "node"
BY_UID = "uid"
BY_ACCOUNT = "account"
WAITING = "waiting"
YES = "yes"


def by_node_class(record: Typed[GPURequest]) -> tuple[str, ...]:
    """The class it was reserved by; of one without a reservation the class it names."""
    name = class_of(record)
    return (name,) if name else ()


def by_node(record: Typed[GPURequest]) -> tuple[str, ...]:
    name = record.object.status.node_name if record.object is not None else None
    return (name,) if name else ()


def by_uid(record: Typed[GPURequest]) -> tuple[str, ...]:
    """As it stands in tokens."""
    return (plain_uid(record.uid_text),)


def by_account(record: Typed[GPURequest]) -> tuple[str, ...]:
    """The id of the account where its machine is, or may be, by its own record."""
    attempt = open_attempt(attempts_of(record))
    return (attempt.account,) if attempt is not None and attempt.account and not copied(record) else ()


def waiting(record: Typed[GPURequest]) -> tuple[str, ...]:
    """It has no machine and may get one: changes of the market concern it."""
    if record.object is None or record.object.status.phase in ("Finished", "Failed"):
        return ()
    return (YES,) if open_attempt(attempts_of(record)) is None else ()


INDEXES = {BY_NODE_CLASS: by_node_class, BY_NODE: by_node, BY_UID: by_uid, BY_ACCOUNT: by_account, WAITING: waiting}
