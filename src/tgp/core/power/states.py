"""The state of a machine you own, for people and alerts."""

from collections.abc import Iterable, Mapping
from enum import StrEnum

from tgp.api.request import GPURequest
from tgp.core.disruption.causes import holds, power_in_doubt
from tgp.core.model.attempts import attempts_of, is_owned, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node


class PowerState(StrEnum):
    OFF = "off"
    WAKING = "waking"  # a request, and no Ready Node with its GPUs yet
    ON = "on"
    UNREQUESTED = "unrequested"  # on, without a request
    DRAINING = "draining"
    GOING_OFF = "going-off"  # it is powered off, or that is confirmed
    UNKNOWN = "unknown"  # its status errs, or contradicts its Node: nothing is switched


def by_machine(requests: Iterable[KubeObject[GPURequest]]) -> Mapping[str, KubeObject[GPURequest]]:
    """Requests that have, or may have, a machine you own; by its name."""
    found = {}
    for record in requests:
        attempt = open_attempt(attempts_of(record))
        if attempt is not None and is_owned(attempt) and attempt.offer is not None and attempt.offer.instance_type:
            found[attempt.offer.instance_type] = record
    return found


def power_state(record: KubeObject[GPURequest] | None, node: Node | None) -> PowerState:
    """`record`: the request that uses it; None: none does."""
    if record is None or record.value is None:
        return PowerState.UNREQUESTED if node is not None and node.ready is True else PowerState.OFF
    if power_in_doubt(record):
        return PowerState.UNKNOWN
    if holds(record, "Terminating") is not None:
        drained = next((each for each in record.value.status.conditions if each.type == "Drained"), None)
        left = drained is not None and drained.status != "True"
        return PowerState.DRAINING if left else PowerState.GOING_OFF
    if record.deleting or holds(record, "Disrupted") is not None:
        return PowerState.DRAINING
    return PowerState.WAKING if record.value.status.ready_at is None else PowerState.ON
