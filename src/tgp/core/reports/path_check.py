"""One machine, link by link: request, machine, device in the mesh, Node, and the path to its kubelet.

Each link is OK, broken, or unknown; unknown never counts as OK. The text of a broken link says what to do, and the
text of an unknown one says why.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tgp.api.request import Attempt, GPURequest
from tgp.core.joining.mesh.status import addresses_of, mesh_status_of, silence_of
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.join_record import JoinRecord, MeshRecord
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.mesh import TITLES, Backend, Device, MeshStatus, Network
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.reports.machine_costs import account_of_machine, listed, same_account
from tgp.core.requests.node_state import SCHEME
from tgp.core.requests.own_node import reserved_node_name

REQUEST_UID = "tgp.io/request-uid"
REPAIRS = {
    Backend.TAILSCALE: "run Tailscale on the control planes too, and grant them tcp:10250: tgp mesh policy",
    Backend.HEADSCALE: "run Tailscale on the control planes too, and allow them tcp:10250: tgp mesh policy",
    Backend.WIREGUARD: "the control planes need a route to the tunnel's network, through its server",
    Backend.KUBESPAN: "KubeSpan must be on at the control planes, and UDP 51820 open at one end of each pair",
    Backend.NONE: "without a mesh the control planes must reach that address themselves",
}
UNKNOWN_BACKEND = "check that the control planes have a route into the machine's network"


OVER = frozenset({"Finished", "Failed"})


@dataclass(frozen=True, slots=True)
class PathLink:
    name: str
    ok: bool | None  # None: unknown
    words: str
    fix: str = ""  # what to do; empty: nothing, or nothing by hand


@dataclass(frozen=True, slots=True)
class CheckedMachine:
    """What the inventory shows of one machine."""

    name: str  # as it was asked for: node/x, request/ns/x
    node: Node | None = None
    request: KubeObject[GPURequest] | None = None
    attempt: Attempt | None = None  # that may have a machine

    @property
    def over(self) -> bool:
        """Has its request ended without leaving a machine?"""
        status = self.request.value.status if self.request is not None and self.request.value is not None else None
        return status is not None and status.phase in OVER and self.attempt is None

    @property
    def node_name(self) -> str:
        """Of the Node that exists, or is expected; empty: unknown."""
        if self.node is not None:
            return self.node.name
        return reserved_node_name(self.request) if self.request is not None else ""


@dataclass(frozen=True, slots=True)
class PortProbe:
    """Whether the API server reaches the kubelet, asked with the user's own permissions."""

    ok: bool | None
    words: str
    forbidden: bool = False  # the user may not ask
    answered: bool = False  # a server answered, so the path works


@dataclass(frozen=True, slots=True)
class ConnectivityReport:
    """What was seen besides the inventory."""

    entry: JoinRecord | None = None  # the operator's join record of the machine
    book_trouble: str = ""  # why the join record could not be read
    asked: bool = False  # was the mesh?
    device: Device | None = None
    ranges: tuple[Network, ...] = ()
    has_devices: bool = False
    mesh_trouble: str = ""  # why the mesh could not be asked
    lease: Mapping[str, Any] | None = None
    lease_trouble: str = ""
    probe: PortProbe | None = None  # None: there is no Node to be reached
    seen_at: datetime | None = field(default=None)


def check_path(
    inventory: ClusterInventory, *, node: str = "", request: ObjectKey | None = None
) -> CheckedMachine | None:
    """None: there is neither a Node nor a request of that name."""
    if request is not None:
        found = next((record for record in inventory.requests if record.key == request), None)
        if found is None:
            return None
        attempt = open_attempt(attempts_of(found))
        target = CheckedMachine(f"request/{request}", None, found, attempt)
        return CheckedMachine(target.name, _node(inventory, target.node_name), found, attempt)
    here = _node(inventory, node)
    owner = next((record for record in inventory.requests if _owns(record, here, node)), None)
    if here is None and owner is None:
        return None
    attempt = open_attempt(attempts_of(owner)) if owner is not None else None
    return CheckedMachine(f"node/{node}", here, owner, attempt)


def links(inventory: ClusterInventory, target: CheckedMachine, way: ConnectivityReport) -> tuple[PathLink, ...]:
    """In the order of a machine's start. Of a request that has ended only the request itself."""
    request = _request(target)
    if target.over and target.node is None:
        return (request,)
    return tuple(
        link
        for link in (
            request,
            _machine(inventory, target),
            *_mesh(target, way),
            _node_link(target),
            *_kubelet(inventory, target, way),
        )
        if link is not None
    )


def read_probe(status: int, said: str, address: str) -> PortProbe:
    """What an answer of /api/v1/nodes/NAME/proxy/healthz means; `said`: its message, or the kubelet's own text."""
    target = f"{address}:10250" if address else "the kubelet"
    if status == 200:
        return PortProbe(True, f"the API server reaches {target}")
    if status in (401, 403) and "cannot get resource" in said:
        return PortProbe(None, "you may not get nodes/proxy, which this check needs", forbidden=True)
    if status in (401, 403):  # a kubelet does not answer with a Status, nor does a proxy
        refused = f"a server at {target} answers and refuses the API server ({status})"
        return PortProbe(False, f"{refused}: a kubelet of another cluster, or a proxy on the way", answered=True)
    if status == 404:
        return PortProbe(None, "the API server does not proxy to kubelets (404)")
    if status in (500, 502, 503, 504):
        return PortProbe(False, f"the API server cannot reach {target}: {_short(said) or f'HTTP {status}'}")
    return PortProbe(None, f"the API server answers {status}: {_short(said)}")


# -- the links ---------------------------------------------------------------------------------------------------------


def _request(target: CheckedMachine) -> PathLink:
    record = target.request
    if record is None:
        if target.node is not None and target.node.provider_id.startswith(SCHEME):
            return PathLink("request", False, "this Node was rented, but no request owns it any more", "tgp doctor")
        return PathLink("request", True, "none: this Node was not rented")
    if record.value is None:
        return PathLink("request", None, f"{record.key} was written by a newer version", "upgrade tgp")
    if copied(record):
        return PathLink(
            "request", False, f"{record.key} is a restored copy: the machine belongs to another request", ""
        )
    status = record.value.status
    words = f"{record.key} is {status.phase or 'new'}"
    if target.over:
        return PathLink("request", True, f"{words}: the machine is gone and no longer billed")
    if target.attempt is None:
        return PathLink("request", False, f"{words}, and has no machine", f"tgp why request/{record.key}")
    return PathLink("request", True, words)


def _machine(inventory: ClusterInventory, target: CheckedMachine) -> PathLink | None:
    attempt = target.attempt
    if attempt is None or target.request is None or copied(target.request):
        return None
    inspection = account_of_machine(inventory, attempt)
    if inspection is None or not inspection.asked:
        why = inspection.why if inspection is not None else "no class names the provider any more"
        return PathLink("machine", None, f"the provider could not be asked: {why}", "tgp doctor")
    if not same_account(inventory, inspection, attempt):
        return PathLink(
            "machine",
            None,
            "the API key belongs to another account than the one the machine was bought in",
            "tgp doctor",
        )
    found = next((instance for _, instance, token in listed(inventory) if str(token) == attempt.token), None)
    if found is None:
        return PathLink(
            "machine", False, f"{inspection.title} does not list {attempt.instance_id or attempt.token}", "tgp doctor"
        )
    return PathLink("machine", True, f"{inspection.title} lists {found.id}, {found.state.value}")


def _mesh(target: CheckedMachine, way: ConnectivityReport) -> Iterator[PathLink]:
    if target.request is None:
        return
    if way.book_trouble:
        yield PathLink("mesh", None, way.book_trouble)
        return
    note = way.entry.mesh if way.entry is not None else None
    if note is None:
        yield PathLink("mesh", None if way.entry is None else True, _without(way))
        return
    backend = Backend(note.backend)
    if way.mesh_trouble:
        yield PathLink("mesh", None, way.mesh_trouble)
        if target.node is None:
            return
    if backend is Backend.NONE:
        yield PathLink("mesh", True, "the machine joined without a mesh")
        return
    mesh = _status(target, way, backend, note)
    yield PathLink("mesh" if not way.mesh_trouble else "address", mesh.ok, mesh.message, _repair_mesh(mesh, backend))
    if way.device is not None and way.device.online is False:
        yield PathLink("device", False, f"{way.device.name or note.hostname} is offline in the {TITLES[backend]}", "")


def _without(way: ConnectivityReport) -> str:
    if way.entry is None:
        return "no join record exists for the machine"
    return "the machine joined without a mesh"


def _status(target: CheckedMachine, way: ConnectivityReport, backend: Backend, note: MeshRecord) -> MeshStatus:
    listing = way.has_devices and way.asked and not way.mesh_trouble
    return mesh_status_of(
        TITLES[backend],
        note.hostname,
        target.node,
        way.device,
        ranges=way.ranges,
        has_devices=listing,
        known=bool(note.device_id),
    )


def _repair_mesh(mesh: MeshStatus, backend: Backend) -> str:
    match mesh.reason:
        case "DeviceMissing" | "NotJoined":
            return (
                "see the machine's console log for messages of Tailscale or Talos"
                if backend is not Backend.NONE
                else ""
            )
        case "DeviceUnknown":
            return "a new machine gets a new key: delete the request"
        case "WrongAddress":
            return "tgp talos check shows whether the template sets the address"
        case _:
            return ""


def _node_link(target: CheckedMachine) -> PathLink:
    node = target.node
    if node is None:
        awaited = f"Node {target.node_name} does not exist" if target.node_name else "no Node is expected yet"
        return PathLink("Node", False, awaited, "")
    addresses = ", ".join(addresses_of(node)) or "no InternalIP"
    if node.ready is None:
        return PathLink(
            "Node", False, f"{node.name} ({addresses}) does not report: {node.ready_reason or 'no report yet'}", ""
        )
    if not node.ready:
        return PathLink(
            "Node",
            False,
            f"{node.name} ({addresses}) is not ready: {node.ready_reason}",
            f"kubectl describe node {node.name}",
        )
    return PathLink("Node", True, f"{node.name} is ready at {addresses}")


def _kubelet(inventory: ClusterInventory, target: CheckedMachine, way: ConnectivityReport) -> Iterator[PathLink]:
    node = target.node
    if node is None:
        return
    if way.lease_trouble:
        yield PathLink("Lease", None, way.lease_trouble)
    elif way.lease is None:
        yield PathLink("Lease", False, f"the kubelet of Node {node.name} has no Lease", "")
    elif silence := silence_of(node.name, way.lease, way.seen_at or inventory.now):
        yield PathLink("Lease", False, silence.words, "")
    else:
        yield PathLink("Lease", True, "renewed in time: the kubelet reaches the API server")
    if way.probe is None:
        return
    note = way.entry.mesh if way.entry is not None else None
    fix = ""
    if way.probe.ok is False and not way.probe.answered:
        fix = REPAIRS[Backend(note.backend)] if note is not None else UNKNOWN_BACKEND
    elif way.probe.forbidden:
        fix = "kubectl auth can-i get nodes/proxy"
    yield PathLink("kubelet", way.probe.ok, way.probe.words, fix)


def _node(inventory: ClusterInventory, name: str) -> Node | None:
    return next((node for node in inventory.nodes if name and node.name == name), None)


def _owns(record: KubeObject[GPURequest], node: Node | None, name: str) -> bool:
    if node is not None and record.uid_text and node.labels.get(REQUEST_UID) == record.uid_text:
        return True
    attempt = open_attempt(attempts_of(record))
    if attempt is None or copied(record):
        return False
    if node is not None and node.provider_id:
        return node.provider_id.rpartition("/")[2] == attempt.token
    return reserved_node_name(record) == name


def _short(words: str) -> str:
    """The end of an API server's message: the cause comes last."""
    bare = " ".join(words.split())
    return bare if len(bare) <= 160 else f"… {bare[-160:]}"
