"""What machines of a type really had, and how many launches of it succeeded in a row.

A machine is looked at once, when it is initialised: what its Node loses later (a device plugin that restarts) says
nothing of the type. Of two machines of a type the newer one counts.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Annotated

import msgspec

from tgp.api.request import Attempt, GPURequest
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.gpus import find, resource_name
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import REQUEST_UID, Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import UNKNOWN_GPU, BootMode, Offer
from tgp.core.model.resources import Resources
from tgp.core.pools.planner.world import Shape
from tgp.core.requests.chosen_offer import offer_of
from tgp.core.requests.purchase import takes_over

SHAPES = "tgp-shapes"  # the ConfigMap
MOST_TYPES = 256  # that are remembered, the newest
NOISE = 0.01  # machines of a type differ by so much in what they have …
BOOT_NOISE = 0.25  # … and by so much in how long they take to boot
SOLD_OUT = "SoldOut"
NAME_DIGITS = 32
PRODUCT_LABEL, MEMORY_LABEL = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"  # the latter in MiB, of one GPU
SHARED = "-SHARED"  # what a GPU that several pods use at a time is named with
MEMORY_DIGITS = 10

Amount = Annotated[int, msgspec.Meta(ge=0, le=1 << 60)]


class SeenShape(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """What one machine had when it was initialised."""

    offer: str  # its key
    ordered_at: datetime
    cpu_milli: Amount
    memory_bytes: Amount
    others: dict[str, Amount] = {}
    boot_seconds: Amount = 0  # from the order until the machine was Ready; 0: it is not

    @property
    def name(self) -> str:
        """Of its line: keys of offers have letters that keys of a ConfigMap may not have."""
        return sha256(self.offer.encode()).hexdigest()[:NAME_DIGITS]

    @property
    def shape(self) -> Shape:
        return Shape(
            Resources(self.cpu_milli, self.memory_bytes, tuple(sorted(self.others.items()))), self.boot_seconds
        )


def line_of(seen: SeenShape) -> str:
    return msgspec.json.encode(seen, order="sorted").decode()


def read_line(line: object) -> SeenShape | None:
    """None: it cannot be read."""
    try:
        seen = msgspec.json.decode(line, type=SeenShape) if isinstance(line, str) else None
    except msgspec.DecodeError:
        return None
    return seen if seen is not None and seen.ordered_at.tzinfo is not None else None


def seen_shape(record: KubeObject[GPURequest], node: Node | None) -> SeenShape | None:
    """None: its machine is not initialised, its Node does not show it now, or the Node is another request's."""
    attempt = open_attempt(attempts_of(record))
    if record.value is None or node is None or node.ready is not True or attempt is None or attempt.offer is None:
        return None
    if node.labels.get(REQUEST_UID, record.uid_text) != record.uid_text or takes_over(record):
        return None  # another request's, or a machine that was on before: its boot was not seen
    held = {each.type for each in record.value.status.conditions if each.status == "True"}
    ordered_at, offer, had = attempt.reserved_at or attempt.launched_at, offer_of(attempt.offer), node.allocatable
    if "Initialized" not in held or ordered_at is None or not had.of(resource_name(offer.gpu)):
        return None
    ready_at = record.value.status.ready_at
    took = int((ready_at - ordered_at).total_seconds()) if ready_at is not None else 0
    return SeenShape(offer.key, ordered_at, had.cpu_milli, had.memory_bytes, dict(had.others), max(took, 0))


def to_write(seen: SeenShape, table: Mapping[str, SeenShape]) -> bool:
    """Whether the table, by name, would tell something else with it."""
    known = table.get(seen.name)
    if known is not None:
        return known.ordered_at < seen.ordered_at and _differ(known, seen)
    return len(table) < MOST_TYPES or min(each.ordered_at for each in table.values()) < seen.ordered_at


def surplus(table: Mapping[str, SeenShape]) -> list[str]:
    """Names of the oldest lines, as far as there are too many."""
    oldest_first = sorted(table, key=lambda name: (table[name].ordered_at, name))
    return oldest_first[: max(len(table) - MOST_TYPES, 0)]


def _differ(known: SeenShape, seen: SeenShape) -> bool:
    had, has = known.shape.allocatable, seen.shape.allocatable
    names = {name for each in (had, has) for name, _ in each.items()}
    if any(_apart(had.of(name), has.of(name), NOISE) for name in names):
        return True
    return _apart(known.boot_seconds, seen.boot_seconds, BOOT_NOISE)


def _apart(before: int, after: int, noise: float) -> bool:
    return abs(after - before) > noise * max(before, after)


def owned_shape(offer: Offer, node: Node | None) -> Shape | None:
    """Of a machine you own whose class does not tell its size: what its Node last reported, also while it is off.

    A kubelet that shuts down reports no GPUs at last: those the class tells.
    """
    if offer.boot is not BootMode.POWER or (offer.vcpus and offer.memory_gib) or node is None:
        return None
    reported = node.allocatable
    if not reported.cpu_milli or not reported.memory_bytes:
        return None
    return Shape(reported.at_least(Resources(others=((resource_name(offer.gpu), offer.gpu_count),))))


def with_learned_gpu(offer: Offer, node: Node | None) -> Offer:
    """Of a machine you own whose class does not name the model: with that of its Node, also while it is off.

    NVIDIA's feature discovery labels Nodes; a name that could be several cards is decided by the memory of one.
    """
    if offer.boot is not BootMode.POWER or offer.gpu != UNKNOWN_GPU or node is None:
        return offer
    name, mebibytes = node.labels.get(PRODUCT_LABEL, "").removesuffix(SHARED), node.labels.get(MEMORY_LABEL, "")
    known = mebibytes.isascii() and mebibytes.isdigit() and len(mebibytes) < MEMORY_DIGITS
    found = (find(name) or find(name, memory_gib=int(mebibytes) / 1024 if known else None)) if name else None
    return msgspec.structs.replace(offer, gpu=found.model, gpu_memory_gib=found.memory_gib) if found else offer


class MachineTypes:
    """By offer key. A new process begins with what the table tells, and counts launches from zero."""

    def __init__(self) -> None:
        self._seen: dict[str, SeenShape] = {}
        self._successes: dict[str, int] = {}
        self._counted: dict[ObjectKey, frozenset[str]] = {}  # request → tokens of its attempts

    @property
    def shapes(self) -> dict[str, Shape]:
        return {key: seen.shape for key, seen in self._seen.items()}

    @property
    def successes(self) -> Mapping[str, int]:
        return self._successes

    def restore(self, seen: Iterable[SeenShape]) -> None:
        for each in seen:
            known = self._seen.get(each.offer)
            if known is None or known.ordered_at < each.ordered_at:
                self._seen.pop(each.offer, None)
                self._seen[each.offer] = each
        while len(self._seen) > MOST_TYPES:
            del self._seen[next(iter(self._seen))]

    def learn(self, record: KubeObject[GPURequest], node: Node | None) -> None:
        seen = seen_shape(record, node)
        if seen is not None:
            self.restore((seen,))

    def count(self, record: KubeObject[GPURequest], since: datetime) -> None:
        """Launches after `since`, each once."""
        attempts = attempts_of(record)
        counted = self._counted.get(record.key, frozenset())
        for each in attempts:
            if each.token not in counted and each.offer is not None:
                self._count(offer_of(each.offer).key, each, since)
        told = frozenset(each.token for each in attempts if _told(each))
        if told:
            self._counted[record.key] = told

    def _count(self, offer: str, attempt: Attempt, since: datetime) -> None:
        if attempt.outcome == SOLD_OUT:
            self._successes.pop(offer, None)
        elif attempt.launched_at is not None and attempt.launched_at >= since:
            before = self._successes.pop(offer, 0)
            self._successes[offer] = before + 1
            while len(self._successes) > MOST_TYPES:
                del self._successes[next(iter(self._successes))]

    def forget(self, request: ObjectKey) -> None:
        self._counted.pop(request, None)


def _told(attempt: Attempt) -> bool:
    return attempt.launched_at is not None or attempt.ended_at is not None
