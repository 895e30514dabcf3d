"""Many machines that cannot be reached at once: then the network or the mesh is at fault, and not the machines."""

from datetime import datetime, timedelta

from tgp.api.request import GPURequest
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.requests.observation import RequestObservation

FEW = 2  # machines may always be given up at once
SHARE = 5  # of all machines, one in so many
UNREACHABLE_AT_MOST = timedelta(hours=2)  # of many Nodes together; after that one machine at a time is terminated


def serves(request: GPURequest) -> bool:
    """It was ready, and its termination is not decided: a machine on its way out goes silent anyway."""
    return request.status.ready_at is not None and request.status.phase != "Terminating"


def many_unreachable(observation: RequestObservation) -> str:
    """Why no machine is terminated for being unreachable; empty: few are."""
    served, in_mesh = observation.in_use.served, observation.in_use.in_mesh
    missing = len(observation.in_use.unreachable)
    if _many(missing, served):
        hours = int(UNREACHABLE_AT_MOST.total_seconds()) // 3600
        return (
            f"{missing} of {served} Nodes are unreachable at the same time, probably because of a network outage. No "
            f"machine is terminated for that within {hours} h; after that, one at a time."
        )
    unknown = sum(known is False for known in in_mesh)
    if _many(unknown, len(in_mesh)):
        return (
            f"The mesh does not list {unknown} of {len(in_mesh)} machines at the same time; assuming a fault of the "
            "mesh, so no machine is terminated."
        )
    return ""


def first_to_go(observation: RequestObservation) -> bool:
    """Of machines unreachable together for too long the longest one, and none while another is terminated."""
    found = []
    for record, node in observation.in_use.unreachable:
        since = _unreachable_since(record, node)
        if since is not None and observation.now >= since + UNREACHABLE_AT_MOST:
            found.append((since, record.uid_text))
    longest = min(found)[1] if found else ""
    return longest == observation.record.uid_text and not observation.in_use.node_lost


def _many(some: int, every: int) -> bool:
    return some > max(FEW, every // SHARE)


def _unreachable_since(record: KubeObject[GPURequest], node: Node | None) -> datetime | None:
    """By the status, or by the Node; None: it can be reached, or it is not recorded since when it cannot."""
    if node is not None:
        return node.ready_since if node.ready is not True else None
    assert record.value is not None, "only what can be read serves"
    noted = next((each for each in record.value.status.conditions if each.type == "Registered"), None)
    return noted.last_transition_time if noted is not None and noted.status == "False" else None
