"""Indexes of requests: by class, pool, Node, uid, account, and those that wait."""

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.costs import class_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.spend import end_key
from tgp.core.model.token import plain_uid
from tgp.core.requests.node_metadata import pool_key, pool_owner
from tgp.core.requests.node_state import read_provider_id
from tgp.core.requests.own_node import is_own_node, reserved_node_name
from tgp.ports.cluster import View

BY_NODE_CLASS = "nodeClass"
BY_NODE = "node"
BY_UID = "uid"
BY_ACCOUNT = "account"
BY_POOL = "pool"
BY_POOL_UID = "poolUid"
WAITING = "waiting"  # requests that users wrote
WAITING_OF_POOL = "waitingOfPool"  # by class
YES = "yes"
PODS_BY_NODE = "node"
NODES_BY_MACHINE = "machine"


def by_node_class(record: KubeObject[GPURequest]) -> tuple[str, ...]:
    """The class it was reserved by; without a reservation the class it names."""
    name = class_of(record)
    return (name,) if name else ()


def by_pool(record: KubeObject[GPURequest]) -> tuple[str, ...]:
    """The pool that created it, as namespace/name."""
    key = pool_key(record)
    return (str(key),) if key is not None else ()


def by_node(record: KubeObject[GPURequest]) -> tuple[str, ...]:
    """The name reserved for its Node. Whether that Node is its own, `owners_of` says."""
    name = reserved_node_name(record)
    return (name,) if name else ()


def by_uid(record: KubeObject[GPURequest]) -> tuple[str, ...]:
    """As in tokens."""
    return (plain_uid(record.uid_text),)


def by_account(record: KubeObject[GPURequest]) -> tuple[str, ...]:
    """The id of the account where its machine is, or may be, by its own record."""
    attempt = open_attempt(attempts_of(record))
    return (attempt.account,) if attempt is not None and attempt.account and not copied(record) else ()


def waits(record: KubeObject[GPURequest]) -> bool:
    """It has no machine and may get one: market changes concern it."""
    if record.value is None or record.value.status.phase in ("Finished", "Failed"):
        return False
    return open_attempt(attempts_of(record)) is None


def waiting(record: KubeObject[GPURequest]) -> tuple[str, ...]:
    return (YES,) if waits(record) and pool_owner(record) is None else ()


def waiting_of_pool(record: KubeObject[GPURequest]) -> tuple[str, ...]:
    return by_node_class(record) if waits(record) and pool_owner(record) is not None else ()


def by_pool_uid(record: KubeObject[GPURequest]) -> tuple[str, ...]:
    """The uid of the pool that wrote it."""
    owner = pool_owner(record)
    return (owner.uid,) if owner is not None else ()


INDEXES = {
    BY_NODE_CLASS: by_node_class,
    BY_POOL: by_pool,
    BY_NODE: by_node,
    BY_UID: by_uid,
    BY_ACCOUNT: by_account,
    BY_POOL_UID: by_pool_uid,
    WAITING: waiting,
    WAITING_OF_POOL: waiting_of_pool,
}


def by_node_name(pod: Pod) -> tuple[str, ...]:
    return (pod.node,) if pod.node else ()


def by_machine(node: Node) -> tuple[str, ...]:
    """The rented machine that its provider ID names, as the key of a MachineEnd."""
    marked = read_provider_id(node.provider_id)
    return (end_key(marked[1]).name,) if marked is not None else ()


def own_node(nodes: View[Node], record: KubeObject[GPURequest]) -> Node | None:
    """The Node of a request's machine; None: it has none, or the Node of that name is not its own."""
    node = nodes.get(ObjectKey("", reserved_node_name(record)))
    return node if is_own_node(record, node) else None
