"""What is computed from records of the caches, once for as long as these hold the same ones.

A plan reads every machine, and is made every few seconds while pods wait. Between two of them few machines change.
"""

from collections.abc import Callable, Collection, Hashable
from operator import is_
from typing import Generic, TypeVar

import msgspec

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, is_owned, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.pools.capacity import living, on_its_way
from tgp.core.pools.orders import bought_for
from tgp.core.requests.chosen_offer import offer_of
from tgp.core.requests.node_metadata import pool_uid
from tgp.core.requests.own_node import reserved_node_name
from tgp.core.requests.purchase import takes_over

T = TypeVar("T")

SPARE = 64  # values of objects that are gone, besides as many as there are objects


class ComputedOnce(Generic[T]):
    """By name, with the objects it was computed from: they are never changed in place, only replaced."""

    def __init__(self) -> None:
        self._held: dict[Hashable, tuple[tuple[object, ...], T]] = {}

    def get(self, name: Hashable, inputs: tuple[object, ...], compute: Callable[[], T]) -> T:
        held = self._held.get(name)
        if held is not None and len(held[0]) == len(inputs) and all(map(is_, held[0], inputs)):
            return held[1]
        value = compute()
        self._held[name] = (inputs, value)
        return value

    def keep(self, names: Collection[Hashable]) -> None:
        """Forget what is of no other name, once that is worth it."""
        if len(self._held) > 2 * len(names) + SPARE:
            self._held = {name: held for name, held in self._held.items() if name in names}


class RequestFacts(msgspec.Struct, frozen=True):
    """What a plan reads of a request beside its room. All of it depends on the record alone."""

    coming: bool  # its machine may still become a Node with room; one that is taken over is a Node already
    living: bool  # it has a machine, or may get one
    ends: bool  # its machine is being terminated, or will be next
    reserves: bool  # an attempt is open
    failed: bool
    of_pool: bool
    offer: Offer | None  # that it has bought, or is about to; None: no attempt says
    node_name: str  # reserved for its rented machine; empty: there is none now
    bought_for: tuple[str, ...]


class RequestsRead:
    """The facts of each request, read once for each of its versions."""

    def __init__(self) -> None:
        self._held: dict[ObjectKey, tuple[KubeObject[GPURequest], RequestFacts]] = {}

    def of(self, record: KubeObject[GPURequest]) -> RequestFacts:
        held = self._held.get(record.key)
        if held is None or held[0] is not record:
            held = self._held[record.key] = (record, _read(record))
        return held[1]

    def keep(self, keys: Collection[ObjectKey]) -> None:
        if len(self._held) > 2 * len(keys) + SPARE:
            self._held = {key: held for key, held in self._held.items() if key in keys}


def _read(record: KubeObject[GPURequest]) -> RequestFacts:
    attempt = open_attempt(attempts_of(record))
    conditions = record.value.status.conditions if record.value is not None else ()
    held = {each.type for each in conditions if each.status == "True"}
    return RequestFacts(
        coming=on_its_way(record) and not takes_over(record),
        living=living(record),
        ends=record.deleting or bool(held & {"Terminating", "Disrupted"}),
        reserves=attempt is not None,
        failed=record.value is not None and record.value.status.phase == "Failed",
        of_pool=bool(pool_uid(record)),
        offer=offer_of(attempt.offer) if attempt is not None and attempt.offer is not None else None,
        node_name="" if is_owned(attempt) else reserved_node_name(record),
        bought_for=tuple(bought_for(record)),
    )
