"""Facts about machines that a search for cheaper ones needs, from the objects alone: the operator and `tgp plan` read
them alike.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.controllers.deps import Stores
from tgp.controllers.requests.indexes import PODS_BY_NODE, own_node
from tgp.core.disruption.causes import Machine
from tgp.core.disruption.ending import EndingMachine, ending_machine
from tgp.core.disruption.machine_state import keeps_place, move_of
from tgp.core.market.sources import machines_of
from tgp.core.model.attempts import attempts_of, is_owned, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.pools.planner.world import SpotKind
from tgp.core.power.times import stays_on_until
from tgp.core.requests.node_metadata import pool_uid
from tgp.ports.cluster import View


def class_of(pool: GPUNodePool, classes: View[KubeObject[GPUNodeClass]]) -> GPUNodeClass | None:
    """None: it is not there, leaves, or cannot be read."""
    node_class = classes.get(ObjectKey("", pool.spec.node_class_ref.name))
    return node_class.value if node_class is not None and not node_class.deleting else None


def kept_on_until(record: KubeObject[GPURequest], node_class: GPUNodeClass | None, now: datetime) -> datetime | None:
    """Of a machine you own, by its own settings; None: of any other."""
    attempt = open_attempt(attempts_of(record))
    if attempt is None or attempt.offer is None or not is_owned(attempt) or node_class is None:
        return None
    machine = machines_of(node_class).get(attempt.offer.instance_type or "")
    return stays_on_until(machine, attempt.launched_at, now) if machine is not None else None


def machine_of(
    record: KubeObject[GPURequest], pool: GPUNodePool, stores: Stores, now: datetime, *, awaited: Collection[str]
) -> Machine:
    """As objects alone show it, without what only the operator's settings and memory know.

    `awaited`: names of Nodes that have room for a pod that waits.
    """
    node = own_node(stores.nodes, record)
    pods = stores.pods.by_index(PODS_BY_NODE, node.name) if node is not None else ()
    return Machine(
        record,
        node,
        tuple(sorted(pods, key=lambda each: each.key)),
        awaited=node is not None and node.name in awaited,
        keeps_place=keeps_place(record, moves_under_way(stores.requests.values())),
        stays_until=kept_on_until(record, class_of(pool, stores.classes), now),
    )


def moves_under_way(records: Iterable[KubeObject[GPURequest]]) -> frozenset[str]:
    return frozenset(move for each in records if (move := move_of(each)))


def ending_machines(
    joined: Iterable[tuple[str, KubeObject[GPURequest]]],  # name of a Node, and the request of its machine
    moves: Collection[str],
    pools: Iterable[KubeObject[GPUNodePool]],
    classes: View[KubeObject[GPUNodeClass]],
    *,
    losses: Mapping[SpotKind, float],
    now: datetime,
) -> dict[str, EndingMachine]:
    """By Node, machines of any pool and of users that go once no pod uses them. Not replacements of a move."""
    by_uid = {each.uid_text: each.value for each in pools}
    found: dict[str, EndingMachine] = {}
    for name, record in joined:
        pool = by_uid.get(pool_uid(record))
        kept_on = pool is not None and kept_on_until(record, class_of(pool, classes), now) is not None
        about = ending_machine(record, pool, losses) if not (kept_on or keeps_place(record, moves)) else None
        if about is not None:
            found[name] = about
    return found
