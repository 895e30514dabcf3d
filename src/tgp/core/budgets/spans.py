"""When a pod held what it asked for: from the start of the first container that asks for it until its end is proven.

Moments are whole seconds by the API server's time. A kubelet's stamps are believed only within the bounds of what was
seen: a host whose clock is a day off moves no bill by more than the delay of the watch.
"""

from datetime import datetime
from hashlib import blake2b

import msgspec

from tgp.api.field_error import Invalid
from tgp.api.values import microusd
from tgp.core.budgets.weights import Weights
from tgp.core.model.node import REQUEST_UID, Node
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.requests.node_metadata import PRICE, off_since
from tgp.core.requests.node_state import SCHEME

STATUS_DELAY = 60  # seconds that a kubelet's report may take to reach us
WATCH_DELAY = 2  # seconds between what happens and what a watch shows: stamps are cut to whole seconds, too
SILENT_NODE = 50  # seconds without a heartbeat after which the control plane calls a Node silent
UID_BYTES = 6  # of a pod's uid as the account keeps it: 5,000 open pods share one by chance once in 20 million times
MOST_MILLI = 10**10  # ten million units per pod: more is counted as this, so that every sum fits in 64 bits


class Sighting(msgspec.Struct, frozen=True):
    """What is known of a pod that counts, in bounded time."""

    uid: bytes
    milli: int
    start: int | None = None  # None: placed on a node, and not started yet
    end: int | None = None  # None: it may be running
    sure_until: int | None = None  # after this its use is only possible; None: it is sure
    rate: int | None = None  # micro-dollars an hour of its share of the Node; None: the Node has no price


def short_uid(pod: Pod) -> bytes:
    return blake2b(uid_text(pod.uid).encode(), digest_size=UID_BYTES).digest()


def seconds(moment: datetime) -> int:
    return int(moment.timestamp())


def whole_seconds(moment: datetime) -> int:
    """Rounded up: an end that was seen in the middle of a second, so that a pod never counts less than it ran."""
    return -int(-moment.timestamp() // 1)


def believed(stamp: datetime, earliest: int, seen: int, otherwise: int) -> int:
    """A kubelet's stamp, if it lies within the bounds of what was seen."""
    return seconds(stamp) if earliest <= seconds(stamp) <= seen else otherwise


def counts(pod: Pod, weights: Weights) -> bool:
    """Whether it ever used what is counted, or may: it is placed on a node, and asks for it."""
    return bool(pod.node) and any(weights.asked(pod))


def sight(
    pod: Pod,
    weights: Weights,
    seen: int,
    silent: int = 0,
    node: Node | None = None,
    *,
    began: int | None = None,
    waited: int = 0,
) -> Sighting:
    """A state of the pod that arrived at `seen`, after the view had been silent for that many seconds.

    What it shows happened at most so long before as a report and the view may be late, and not before the pod had a
    Node. `began`: its start, where that is known; `waited`: the last arrival that showed none. The stamp of an end is
    believed only of a clock whose start was: one that is slow by less than a report may be late would bill less.
    """
    earliest = seen - max(STATUS_DELAY, silent)
    placed = pod.placed_at or pod.created_at
    earliest = max(earliest, min(seconds(placed), seen)) if placed is not None else earliest
    stamp, start, end = weights.started(pod), began, None
    if start is None and stamp is not None:
        least = max(earliest, waited - WATCH_DELAY)
        start = believed(stamp, least, seen, least if silent > STATUS_DELAY else seen)
    if pod.finished:
        right = stamp is None or start == seconds(stamp) or silent > STATUS_DELAY
        end = believed(pod.ended_at, earliest, seen, seen) if pod.ended_at is not None and right else seen
    elif pod.over:
        end = seen
    if start is not None and end is not None:
        end = max(start, end)
    heard = silent_since(node) if end is None else None
    return Sighting(
        short_uid(pod),
        min(weights.milli(pod, node), MOST_MILLI),
        start,
        end,
        heard,
        hourly_share(pod, weights, node),
    )


def sight_in_list(pod: Pod, weights: Weights, now: int, node: Node | None = None) -> Sighting:
    """The same from a list alone: nothing was seen before, so its stamps hold from its creation until now."""
    return sight(pod, weights, now, now, node)


def sight_gone(
    pod: Pod, weights: Weights, seen: int, sure_until: int | None = None, *, began: int | None = None
) -> Sighting:
    """It no longer exists; `pod` is the last state that was seen. `sure_until` None: its removal itself was seen."""
    last = sight(pod, weights, seen, began=began)
    return last if last.end is not None else msgspec.structs.replace(last, end=seen, sure_until=sure_until)


def silent_since(node: Node | None) -> int | None:
    """When the Node was last heard of; None: it reports."""
    if node is None or node.ready is not None or node.ready_since is None:
        return None
    return seconds(node.ready_since) - SILENT_NODE


def machine_ended(node: Node | None, entered: datetime | None) -> int | None:
    """When the machine of a silent Node was gone, on record; None: it may run. `entered`: in the spend record.

    Of a machine you own the Node itself has the record. A Node that was heard of later runs again.
    """
    if node is None or node.ready is not None:
        return None
    moments = [seconds(each) for each in (entered, off_since(node)) if each is not None]
    heard = silent_since(node)
    return max((each for each in moments if heard is None or each >= heard), default=None)


def off_time(node: Node | None, earliest: int, seen: int, ended: int | None = None) -> tuple[int, int] | None:
    """From when until when the machine of a Node that reports was off, and ran no pods; None: no record says so.

    The Node's own stamp of its return is believed if it lies between `earliest` and `seen`; otherwise it returned at
    `earliest`. `ended`: when its pods ended, instead of the record that the machine's next request has removed.
    """
    if node is None or node.ready is None or node.ready_since is None:
        return None
    off = off_since(node)
    next_request = REQUEST_UID in node.labels and not node.provider_id.startswith(SCHEME)
    begin = seconds(off) if off is not None else ended if next_request else None
    if begin is None or seconds(node.ready_since) <= begin:
        return None
    least = max(earliest, begin)
    return begin, believed(node.ready_since, least, seen, least)


def hourly_share(pod: Pod, weights: Weights, node: Node | None) -> int | None:
    """Micro-dollars an hour, rounded up; None: the Node has no price, or nothing of what the pod asks for."""
    written = node.annotations.get(PRICE) if node is not None else None
    if node is None or written is None:
        return None
    try:
        price = microusd(written, PRICE)
    except Invalid:
        return None
    asked = [(pod.requests.of(resource), node.allocatable.of(resource)) for resource, _ in weights.asked(pod)]
    return max((-(-price * min(part, whole) // whole) for part, whole in asked if whole > 0), default=None)
