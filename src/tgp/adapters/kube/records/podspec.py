"""Scheduling constraints and requests of a pod template: read from its sub-documents, and shared."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from tgp.adapters.kube.interning import InternPool
from tgp.adapters.kube.records.meta import ABSENT, ObjectMetaReader, given
from tgp.api.quantity import Written, exact, milli
from tgp.core.model.labels import NO_LABELS, NOTHING_AT_ALL, LabelRequirement, Selector, selector
from tgp.core.model.placement import (
    ANYWHERE,
    Affinity,
    HostPort,
    NodeTerm,
    PodTerm,
    PreferredNodes,
    PreferredPods,
    SpreadConstraint,
)
from tgp.core.model.pod import ALWAYS
from tgp.core.model.resources import CPU, MEMORY, NOTHING, Resources, read_resources
from tgp.core.model.taints import Toleration

Documents: TypeAlias = tuple[bytes, ...]
Everything: TypeAlias = tuple[Documents, Documents, Documents, bytes, bytes]


class ContainerWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    resources: msgspec.Raw = ABSENT
    ports: msgspec.Raw = ABSENT
    restart_policy: str = ""


class _NamedClaimWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    claim_name: str = ""


class VolumeWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    persistent_volume_claim: _NamedClaimWire | None = None
    ephemeral: msgspec.Raw = ABSENT  # its claim is named after the pod and the volume


class SpecWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    containers: tuple[ContainerWire, ...] = ()
    init_containers: tuple[ContainerWire, ...] | None = None
    overhead: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT  # of the pod as a whole
    node_selector: msgspec.Raw = ABSENT
    affinity: msgspec.Raw = ABSENT
    tolerations: msgspec.Raw = ABSENT
    spreads: msgspec.Raw = msgspec.field(default=ABSENT, name="topologySpreadConstraints")
    gates: msgspec.Raw = msgspec.field(default=ABSENT, name="schedulingGates")
    claims: msgspec.Raw = msgspec.field(default=ABSENT, name="resourceClaims")
    volumes: tuple[VolumeWire, ...] | None = None
    priority: int | None = None
    scheduler_name: str = "default-scheduler"
    termination_grace_period_seconds: int | None = None
    restart_policy: str = ALWAYS


class _ResourcesWire(msgspec.Struct, frozen=True, gc=False):
    requests: dict[str, Written] | None = None
    limits: dict[str, Written] | None = None


class _SpreadWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    max_skew: int = 1
    min_domains: int | None = None
    label_selector: "SelectorWire | None" = None
    match_label_keys: tuple[str, ...] | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class _PortWire(msgspec.Struct, frozen=True, gc=False):
    host_port: int = msgspec.field(default=0, name="hostPort")
    protocol: str = "TCP"
    host_address: str = msgspec.field(default="", name="hostIP")


class _GateWire(msgspec.Struct, frozen=True, gc=False):
    name: str = ""


class SelectorWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[LabelRequirement, ...] | None = None

    def selector(self) -> Selector:
        return selector(self.match_labels or NO_LABELS, self.match_expressions or ())


class _NodeTermWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: tuple[LabelRequirement, ...] | None = None
    match_fields: tuple[LabelRequirement, ...] | None = None


class RequiredNodesWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_selector_terms: tuple[_NodeTermWire, ...] | None = None


class _PreferredNodeWire(msgspec.Struct, frozen=True, gc=False):
    weight: int = 1
    preference: _NodeTermWire = _NodeTermWire()


class _NodeAffinityWire(msgspec.Struct, frozen=True, gc=False):
    required: RequiredNodesWire | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[_PreferredNodeWire, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class _PodTermWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    topology_key: str = ""
    label_selector: SelectorWire | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: SelectorWire | None = None


class _PreferredPodWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    weight: int = 1
    pod_affinity_term: _PodTermWire = _PodTermWire()


class _PodAffinityWire(msgspec.Struct, frozen=True, gc=False):
    required: tuple[_PodTermWire, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[_PreferredPodWire, ...] | None = msgspec.field(
        default=None, name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class _AffinityWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: _NodeAffinityWire | None = None
    pod_affinity: _PodAffinityWire | None = None
    pod_anti_affinity: _PodAffinityWire | None = None


class Specs:
    """The shared parts of pod specs."""

    def __init__(self, plates: ObjectMetaReader) -> None:
        self._plates = plates
        self.tolerations: InternPool[bytes, tuple[Toleration, ...]] = InternPool(_TOLERATIONS.decode)
        self.affinities: InternPool[bytes, Affinity] = InternPool(_affinity)
        self.spreads: InternPool[bytes, tuple[SpreadConstraint, ...]] = InternPool(_spreads)
        self._ports: InternPool[Documents, tuple[HostPort, ...]] = InternPool(_host_ports)
        self.gates: InternPool[bytes, tuple[str, ...]] = InternPool(_gate_names)
        self._asked: InternPool[bytes, tuple[str, ...]] = InternPool(_asked)
        self._overheads: InternPool[bytes, tuple[str, ...]] = InternPool(_overhead)
        self._plain: InternPool[Documents, Resources] = InternPool(_sum)
        self._layered: InternPool[Everything, Resources] = InternPool(_layered)

    def pools(self) -> tuple[InternPool[Any, Any], ...]:
        own = (self.tolerations, self.affinities, self.spreads, self._ports, self.gates, self._plain, self._layered)
        return (*self._plates.pools(), *own, self._asked, self._overheads)

    def asked(self, resources: msgspec.Raw) -> tuple[str, ...]:
        """The names of the resources that a container, or the pod as a whole, asks for."""
        return self._asked.share(bytes(resources))

    def overhead(self, amounts: msgspec.Raw) -> tuple[str, ...]:
        """The names of the resources that its runtime takes beside its containers."""
        return self._overheads.share(bytes(amounts))

    def requests(self, spec: SpecWire) -> Resources:
        """What the scheduler reserves for it.

        Looked up by the resources of its containers alone: their images and environments, which are long and may
        differ from pod to pod, are no part of the key.
        """
        containers = tuple([bytes(container.resources) for container in spec.containers])
        if not spec.init_containers and spec.overhead is ABSENT and spec.resources is ABSENT:
            return self._plain.share(containers)
        init = spec.init_containers or ()
        return self._layered.share(
            (
                containers,
                tuple([bytes(container.resources) for container in init]),
                tuple([container.restart_policy.encode() for container in init]),
                bytes(spec.overhead),
                bytes(spec.resources),
            )
        )

    def host_ports(self, spec: SpecWire) -> tuple[HostPort, ...]:
        named = [bytes(each.ports) for each in spec.containers if each.ports is not ABSENT]
        if spec.init_containers:
            sidecars = (each for each in spec.init_containers if each.restart_policy == "Always")
            named += [bytes(each.ports) for each in sidecars if each.ports is not ABSENT]
        return self._ports.share(tuple(named)) if named else ()

    def placement(self, spec: SpecWire) -> dict[str, Any]:
        """Its scheduling constraints and requests, as keyword arguments of a record."""
        return {
            "requests": self.requests(spec),
            "node_selector": given(spec.node_selector, self._plates.labels, NO_LABELS),
            "affinity": given(spec.affinity, self.affinities, ANYWHERE),
            "tolerations": given(spec.tolerations, self.tolerations, ()),
        }


def _sum(containers: Documents) -> Resources:
    total = NOTHING
    for document in containers:
        total += _container_requests(document)
    return total


def _layered(parts: Everything) -> Resources:
    """The scheduler's rule: init containers run one after another, beside the sidecars started before them.

    A pod-level request replaces the sum for the resources it names; overhead comes on top.
    """
    containers, init, policies, overhead, whole_pod = parts
    running = _sum(containers)
    sidecars = highest = NOTHING
    for document, policy in zip(init, policies, strict=True):
        wants = _container_requests(document)
        if policy == b"Always":
            sidecars += wants
            highest = highest.at_least(sidecars)
        else:
            highest = highest.at_least(sidecars + wants)
    total = (running + sidecars).at_least(highest)
    total = _overridden(total, _requests(whole_pod))
    return total + (read_resources(_AMOUNTS.decode(overhead) or {}) if overhead else NOTHING)


def _container_requests(document: bytes) -> Resources:
    return read_resources(_requests(document))


def at_least(container: ContainerWire, allocated: msgspec.Raw, actual: msgspec.Raw) -> ContainerWire:
    """With the largest requests of its own, of `allocated` amounts, and of `actual` resources."""
    largest = dict(_requests(bytes(container.resources)))
    amounts = _AMOUNTS.decode(allocated) if bytes(allocated) else None
    for some in (amounts or {}, _requests(bytes(actual))):
        largest |= {
            name: held for name, held in some.items() if name not in largest or exact(held) > exact(largest[name])
        }
    return msgspec.structs.replace(container, resources=msgspec.Raw(msgspec.json.encode({"requests": largest})))


def _asked(document: bytes) -> tuple[str, ...]:
    return tuple(sorted(name for name, amount in _requests(document).items() if milli(amount) > 0))


def _overhead(document: bytes) -> tuple[str, ...]:
    amounts = (_AMOUNTS.decode(document) or {}) if document else {}
    return tuple(sorted(name for name, amount in amounts.items() if milli(amount) > 0))


def _requests(document: bytes) -> Mapping[str, Written]:
    """Requests, with limits as the default where no request is set (as the API server's defaulting does)."""
    if document in (b"", b"null"):
        return {}
    resources = _RESOURCES.decode(document)
    return {**(resources.limits or {}), **(resources.requests or {})}


def _overridden(total: Resources, whole_pod: Mapping[str, Written]) -> Resources:
    if not whole_pod:
        return total
    named = read_resources(whole_pod)
    kept = [(name, amount) for name, amount in total.others if name not in whole_pod]
    return Resources(
        named.cpu_milli if CPU in whole_pod else total.cpu_milli,
        named.memory_bytes if MEMORY in whole_pod else total.memory_bytes,
        tuple(sorted([*kept, *named.others])),
    )


def _affinity(document: bytes) -> Affinity:
    wire = _AFFINITY.decode(document)
    nodes = wire.node_affinity or _NodeAffinityWire()
    return Affinity(
        required_nodes(nodes.required),
        _pod_terms(wire.pod_affinity),
        _pod_terms(wire.pod_anti_affinity),
        tuple(PreferredNodes(each.weight, _node_term(each.preference)) for each in nodes.preferred or ()),
        (*_preferred_pods(wire.pod_affinity, 1), *_preferred_pods(wire.pod_anti_affinity, -1)),
    )


def required_nodes(required: RequiredNodesWire | None) -> tuple[NodeTerm, ...] | None:
    return None if required is None else tuple(_node_term(term) for term in required.node_selector_terms or ())


def _node_term(term: _NodeTermWire) -> NodeTerm:
    return NodeTerm(term.match_expressions or (), term.match_fields or ())


def _pod_terms(affinity: _PodAffinityWire | None) -> tuple[PodTerm, ...]:
    return tuple(_pod_term(term) for term in (affinity.required if affinity else None) or ())


def _preferred_pods(affinity: _PodAffinityWire | None, sign: int) -> tuple[PreferredPods, ...]:
    preferred = (affinity.preferred if affinity else None) or ()
    return tuple(PreferredPods(sign * each.weight, _pod_term(each.pod_affinity_term)) for each in preferred)


def _pod_term(term: _PodTermWire) -> PodTerm:
    return PodTerm(
        term.topology_key,
        term.label_selector.selector() if term.label_selector else NOTHING_AT_ALL,
        term.namespaces or (),
        term.namespace_selector.selector() if term.namespace_selector else None,
    )


def _spreads(document: bytes) -> tuple[SpreadConstraint, ...]:
    return tuple(
        SpreadConstraint(
            wire.topology_key,
            wire.label_selector.selector() if wire.label_selector else NOTHING_AT_ALL,
            wire.max_skew,
            wire.min_domains,
            wire.when_unsatisfiable == "DoNotSchedule",
            wire.match_label_keys or (),
            wire.node_affinity_policy != "Ignore",
            wire.node_taints_policy == "Honor",
        )
        for wire in _SPREADS.decode(document) or ()
    )


def _host_ports(documents: Documents) -> tuple[HostPort, ...]:
    every = (port for document in documents for port in _PORTS.decode(document) or ())
    return tuple(sorted({HostPort(port.host_port, port.protocol, _address(port)) for port in every if port.host_port}))


def _address(port: _PortWire) -> str:
    """Of the two addresses that mean all, the scheduler knows one: `::` is to it an address like others."""
    return "" if port.host_address == "0.0.0.0" else port.host_address  # noqa: S104 - compared, not bound


def claims_of(pod: str, volumes: tuple[VolumeWire, ...]) -> tuple[str, ...]:
    named = [each.persistent_volume_claim.claim_name for each in volumes if each.persistent_volume_claim is not None]
    return (*named, *(f"{pod}-{each.name}" for each in volumes if each.ephemeral is not ABSENT))


def _gate_names(document: bytes) -> tuple[str, ...]:
    return tuple(gate.name for gate in _GATES.decode(document))


_TOLERATIONS: msgspec.json.Decoder[tuple[Toleration, ...]] = msgspec.json.Decoder(tuple[Toleration, ...])
_AMOUNTS: msgspec.json.Decoder[dict[str, Written] | None] = msgspec.json.Decoder(dict[str, Written] | None)
_RESOURCES: msgspec.json.Decoder[_ResourcesWire] = msgspec.json.Decoder(_ResourcesWire)
_AFFINITY: msgspec.json.Decoder[_AffinityWire] = msgspec.json.Decoder(_AffinityWire)
_SPREADS: msgspec.json.Decoder[tuple[_SpreadWire, ...] | None] = msgspec.json.Decoder(tuple[_SpreadWire, ...] | None)
_PORTS: msgspec.json.Decoder[tuple[_PortWire, ...] | None] = msgspec.json.Decoder(tuple[_PortWire, ...] | None)
_GATES: msgspec.json.Decoder[tuple[_GateWire, ...]] = msgspec.json.Decoder(tuple[_GateWire, ...])
