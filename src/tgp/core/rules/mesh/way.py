"""One machine, link by link: its request, its machine, its device in the mesh, its Node, and the way to its kubelet.

Each link is well, broken, or cannot be told; what cannot be told is never taken for well. Of a broken one the words say
what to do, and of one that cannot be told why.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tgp.api.request import Attempt, GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.boot_book import Entry, MeshNote
from tgp.core.model.key import Key
from tgp.core.model.mesh import TITLES, Backend, Device, MeshStand, Network
from tgp.core.model.node import Node
from tgp.core.model.survey import Survey
from tgp.core.model.typed import Typed
from tgp.core.rules.holdings import inspection_of, listed, same_account
from tgp.core.rules.mesh.stand import addresses_of, silence_of, stand_of
from tgp.core.rules.node_state import SCHEME

REQUEST_UID = "tgp.io/request-uid"
REPAIRS = {
    Backend.TAILSCALE: "run Tailscale on the control planes too, and grant them tcp:10250: tgp mesh policy",
    Backend.HEADSCALE: "run Tailscale on the control planes too, and allow them tcp:10250: tgp mesh policy",
    Backend.WIREGUARD: "the control planes need a route to the tunnel's network, through its server",
    Backend.KUBESPAN: "KubeSpan must be on at the control planes, and UDP 51820 open at one end of each pair",
    Backend.NONE: "without a mesh the control planes must reach that address themselves",
}
UNKNOWN_BACKEND = "do the control planes have a way into its network?"


OVER = frozenset({"Finished", "Failed"})


@dataclass(frozen=True, slots=True)
class Link:
    name: str
    ok: bool | None  # None: cannot be told
    words: str
    mend: str = ""  # what to do; empty: nothing, or nothing by hand


@dataclass(frozen=True, slots=True)
class Target:
    """What is known of one machine from a survey."""

    name: str  # as it was asked for: node/x, request/ns/x
    node: Node | None = None
    request: Typed[GPURequest] | None = None
    attempt: Attempt | None = None  # that may have a machine

    @property
    def over(self) -> bool:
        """Did its request come to its end, and leave no machine behind?"""
        status = self.request.object.status if self.request is not None and self.request.object is not None else None
        return status is not None and status.phase in OVER and self.attempt is None

    @property
    def node_name(self) -> str:
        """Of the Node that is here, or that is awaited; empty: nobody knows."""
        if self.node is not None:
            return self.node.name
        status = self.request.object.status if self.request is not None and self.request.object is not None else None
        return (status.node_name or "") if status is not None else ""


@dataclass(frozen=True, slots=True)
class Probe:
    """How the API server fared on its way to the kubelet, asked with somebody's own rights."""

    ok: bool | None
    words: str
    forbidden: bool = False  # whoever asked may not
    answered: bool = False  # somebody is there, and it is not the way that is missing


@dataclass(frozen=True, slots=True)
class Way:
    """What was seen besides: nothing of it is in a survey."""

    entry: Entry | None = None  # what was made for it, by the operator's book
    book_trouble: str = ""  # why the book could not be read
    asked: bool = False  # was the mesh?
    device: Device | None = None
    ranges: tuple[Network, ...] = ()
    has_devices: bool = False
    mesh_trouble: str = ""  # why the mesh could not be asked
    lease: Mapping[str, Any] | None = None
    lease_trouble: str = ""
    probe: Probe | None = None  # None: there is no Node to be reached
    seen_at: datetime | None = field(default=None)


def find(survey: Survey, *, node: str = "", request: Key | None = None) -> Target | None:
    """None: there is neither a Node nor a request of that name."""
    if request is not None:
        found = next((record for record in survey.requests if record.key == request), None)
        if found is None:
            return None
        attempt = open_attempt(attempts_of(found))
        target = Target(f"request/{request}", None, found, attempt)
        return Target(target.name, _node(survey, target.node_name), found, attempt)
    here = _node(survey, node)
    owner = next((record for record in survey.requests if _owns(record, here, node)), None)
    if here is None and owner is None:
        return None
    attempt = open_attempt(attempts_of(owner)) if owner is not None else None
    return Target(f"node/{node}", here, owner, attempt)


def links(survey: Survey, target: Target, way: Way) -> tuple[Link, ...]:
    """In the order in which a machine comes into being. Of a request that is over there is nothing else to look at."""
    request = _request(target)
    if target.over and target.node is None:
        return (request,)
    return tuple(
        link
        for link in (
            request,
            _machine(survey, target),
            *_mesh(target, way),
            _node_link(target),
            *_kubelet(survey, target, way),
        )
        if link is not None
    )


def read_probe(status: int, said: str, address: str) -> Probe:
    """What an answer of /api/v1/nodes/NAME/proxy/healthz means; `said`: its message, or the kubelet's own words."""
    target = f"{address}:10250" if address else "the kubelet"
    if status == 200:
        return Probe(True, f"the API server reaches {target}")
    if status in (401, 403) and "cannot get resource" in said:
        return Probe(
            None, "you may not ask through the API server: it takes the right to get nodes/proxy", forbidden=True
        )
    if status in (401, 403):  # a kubelet's own words are no Status; nor are a proxy's
        refused = f"at {target} somebody answers, and refuses the API server ({status})"
        return Probe(False, f"{refused}: a kubelet of another cluster, or a proxy on the way", answered=True)
    if status == 404:
        return Probe(None, "the API server offers no way to kubelets (404)")
    if status in (500, 502, 503, 504):
        return Probe(False, f"the API server cannot reach {target}: {_short(said) or f'it answers {status}'}")
    return Probe(None, f"the API server answers {status}: {_short(said)}")


# -- the links ---------------------------------------------------------------------------------------------------------


def _request(target: Target) -> Link:
    record = target.request
    if record is None:
        if target.node is not None and target.node.provider_id.startswith(SCHEME):
            return Link("request", False, "no request has this Node any more, and it was rented", "tgp doctor")
        return Link("request", True, "none: this Node was not rented")
    if record.object is None:
        return Link("request", None, f"{record.key} was written by a newer version", "upgrade tgp")
    if copied(record):
        return Link("request", False, f"{record.key} is a restored copy: the machine is another's", "")
    status = record.object.status
    words = f"{record.key} is {status.phase or 'new'}"
    if target.over:
        return Link("request", True, f"{words}: its machine is gone, and nothing of it costs any more")
    if target.attempt is None:
        return Link("request", False, f"{words}, and has no machine", f"tgp why request/{record.key}")
    return Link("request", True, words)


def _machine(survey: Survey, target: Target) -> Link | None:
    attempt = target.attempt
    if attempt is None or target.request is None or copied(target.request):
        return None
    inspection = inspection_of(survey, attempt)
    if inspection is None or not inspection.asked:
        why = inspection.why if inspection is not None else "no class names its provider any more"
        return Link("machine", None, f"its provider could not be asked: {why}", "tgp doctor")
    if not same_account(survey, inspection, attempt):
        return Link("machine", None, "the key belongs to another account than the one it was bought with", "tgp doctor")
    found = next((instance for _, instance, token in listed(survey) if str(token) == attempt.token), None)
    if found is None:
        return Link(
            "machine", False, f"{inspection.title} does not list {attempt.instance_id or attempt.token}", "tgp doctor"
        )
    return Link("machine", True, f"{inspection.title} lists {found.id}, {found.state.value}")


def _mesh(target: Target, way: Way) -> Iterator[Link]:
    if target.request is None:
        return
    if way.book_trouble:
        yield Link("mesh", None, way.book_trouble)
        return
    note = way.entry.mesh if way.entry is not None else None
    if note is None:
        yield Link("mesh", None if way.entry is None else True, _without(way))
        return
    backend = Backend(note.backend)
    if way.mesh_trouble:
        yield Link("mesh", None, way.mesh_trouble)
        if target.node is None:
            return
    if backend is Backend.NONE:
        yield Link("mesh", True, "it joined by no mesh")
        return
    stand = _stand(target, way, backend, note)
    yield Link("mesh" if not way.mesh_trouble else "address", stand.ok, stand.message, _mend_mesh(stand, backend))
    if way.device is not None and way.device.online is False:
        yield Link("device", False, f"{way.device.name or note.hostname} is offline in the {TITLES[backend]}", "")


def _without(way: Way) -> str:
    if way.entry is None:
        return "nothing was made for it to join by: it is in no book"
    return "it joined by no mesh"


def _stand(target: Target, way: Way, backend: Backend, note: MeshNote) -> MeshStand:
    listing = way.has_devices and way.asked and not way.mesh_trouble
    return stand_of(
        TITLES[backend],
        note.hostname,
        target.node,
        way.device,
        ranges=way.ranges,
        has_devices=listing,
        known=bool(note.device_id),
    )


def _mend_mesh(stand: MeshStand, backend: Backend) -> str:
    match stand.reason:
        case "DeviceMissing" | "NotJoined":
            return "its console log tells what Tailscale or Talos says" if backend is not Backend.NONE else ""
        case "DeviceUnknown":
            return "a new machine gets a new key: delete the request"
        case "WrongAddress":
            return "tgp talos check tells whether the template sets it"
        case _:
            return ""


def _node_link(target: Target) -> Link:
    node = target.node
    if node is None:
        awaited = f"Node {target.node_name} is not here" if target.node_name else "no Node is awaited yet"
        return Link("Node", False, awaited, "")
    addresses = ", ".join(addresses_of(node)) or "no InternalIP"
    if node.ready is None:
        return Link("Node", False, f"{node.name} ({addresses}) is silent: {node.ready_reason or 'it never spoke'}", "")
    if not node.ready:
        return Link(
            "Node",
            False,
            f"{node.name} ({addresses}) is not ready: {node.ready_reason}",
            f"kubectl describe node {node.name}",
        )
    return Link("Node", True, f"{node.name} is ready at {addresses}")


def _kubelet(survey: Survey, target: Target, way: Way) -> Iterator[Link]:
    node = target.node
    if node is None:
        return
    if way.lease_trouble:
        yield Link("Lease", None, way.lease_trouble)
    elif way.lease is None:
        yield Link("Lease", False, f"the kubelet of Node {node.name} has no Lease", "")
    elif silence := silence_of(node.name, way.lease, way.seen_at or survey.now):
        yield Link("Lease", False, silence.words, "")
    else:
        yield Link("Lease", True, "renewed in time: the kubelet reaches the API server")
    if way.probe is None:
        return
    note = way.entry.mesh if way.entry is not None else None
    mend = ""
    if way.probe.ok is False and not way.probe.answered:
        mend = REPAIRS[Backend(note.backend)] if note is not None else UNKNOWN_BACKEND
    elif way.probe.forbidden:
        mend = "kubectl auth can-i get nodes/proxy"
    yield Link("kubelet", way.probe.ok, way.probe.words, mend)


def _node(survey: Survey, name: str) -> Node | None:
    return next((node for node in survey.nodes if name and node.name == name), None)


def _owns(record: Typed[GPURequest], node: Node | None, name: str) -> bool:
    if node is not None and record.uid_text and node.labels.get(REQUEST_UID) == record.uid_text:
        return True
    attempt = open_attempt(attempts_of(record))
    if attempt is None or copied(record):
        return False
    if node is not None and node.provider_id:
        return node.provider_id.rpartition("/")[2] == attempt.token
    return record.object is not None and record.object.status.node_name == name


def _short(words: str) -> str:
    """The end of what an API server says: the cause stands there, behind what it tried."""
    bare = " ".join(words.split())
    return bare if len(bare) <= 160 else f"… {bare[-160:]}"
