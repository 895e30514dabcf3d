"""Pods: there may be a hundred thousand, so this parser is written for speed."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import msgspec

from tgp.adapters.kube.records.meta import ABSENT, MetaWire, ObjectMetaReader, PartialObject, given, version
from tgp.adapters.kube.records.podspec import ContainerWire, Specs, SpecWire, at_least, claims_of
from tgp.core.model.labels import NO_LABELS
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import ANYWHERE
from tgp.core.model.pod import ALWAYS, FAILED, PENDING, RUNNING, SUCCEEDED, UNKNOWN, Pod
from tgp.core.model.record import pack_uid

_PHASES = {phase: phase for phase in (PENDING, RUNNING, SUCCEEDED, FAILED, UNKNOWN)}


class _StretchWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    started_at: datetime | None = None
    finished_at: datetime | None = None


class _StateWire(msgspec.Struct, frozen=True, gc=False):
    running: _StretchWire | None = None
    terminated: _StretchWire | None = None


class _ContainerStatusWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    ready: bool = False
    state: _StateWire | None = None
    last_state: _StateWire | None = None
    allocated_resources: msgspec.Raw = ABSENT
    resources: msgspec.Raw = ABSENT


class _ConditionWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: datetime | None = None


class _StatusWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phase: str = PENDING
    start_time: datetime | None = None
    nominated_node_name: str = ""
    container_statuses: list[_ContainerStatusWire] | None = None
    init_container_statuses: list[_ContainerStatusWire] | None = None
    conditions: msgspec.Raw = ABSENT


class PodWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire
    spec: SpecWire = SpecWire()
    status: _StatusWire = _StatusWire()


class PodReader:
    wire = PodWire

    def __init__(self) -> None:
        self.plates = ObjectMetaReader()
        self.specs = Specs(self.plates)
        self.pools = self.specs.pools()

    def read(self, wire: PodWire, known: Mapping[ObjectKey, Pod]) -> Pod:
        meta, spec, status = wire.metadata, wire.spec, wire.status
        plates, specs = self.plates, self.specs
        phase = _PHASES.get(status.phase, UNKNOWN)
        node = plates.names.share(spec.node_name) if spec.node_name else ""
        selector = NO_LABELS if spec.node_selector is ABSENT else given(spec.node_selector, plates.labels, NO_LABELS)
        started_at = _started_at(status, status.container_statuses) if status.container_statuses else None
        unplaced_since, unplaced_reason = (None, "") if node or status.conditions is ABSENT else _unplaced(status)
        key, uid = plates.key(meta, known), pack_uid(meta.uid)
        if node and (held := known.get(key)) is not None and held.node == node and held.uid == uid:
            placed_at = held.placed_at  # a pod stays where it is
        else:
            placed_at = _placed_at(meta, status) if node and status.conditions is not ABSENT else None
        return Pod(
            key=key,
            uid=uid,
            resource_version=version(meta.resource_version),
            created_at=meta.creation_timestamp,
            deletion_requested_at=meta.deletion_timestamp,
            released=meta.deletion_grace_period_seconds == 0,
            # Absence is checked inline, not in a call: most of these are absent in most pods, a million times a day.
            labels=NO_LABELS if meta.labels is ABSENT else given(meta.labels, plates.labels, NO_LABELS),
            annotations=NO_LABELS if meta.annotations is ABSENT else plates.annotations(bytes(meta.annotations)),
            finalizers=() if meta.finalizers is ABSENT else given(meta.finalizers, plates.texts, ()),
            owners=() if meta.owner_references is ABSENT else given(meta.owner_references, plates.owners, ()),
            node=node,
            requests=specs.requests(_allotted(spec, status) if node and _resizes(status) else spec),
            node_selector=selector,
            affinity=ANYWHERE if spec.affinity is ABSENT else given(spec.affinity, specs.affinities, ANYWHERE),
            tolerations=() if spec.tolerations is ABSENT else given(spec.tolerations, specs.tolerations, ()),
            spreads=() if spec.spreads is ABSENT else given(spec.spreads, specs.spreads, ()),
            host_ports=specs.host_ports(spec),
            volume_claims=claims_of(meta.name, spec.volumes) if spec.volumes else (),
            gates=() if spec.gates is ABSENT else given(spec.gates, specs.gates, ()),
            claims_devices=spec.claims is not ABSENT and bytes(spec.claims) not in _NO_CLAIMS,
            priority=spec.priority or 0,
            scheduler=plates.names.share(spec.scheduler_name),
            grace_seconds=30 if (grace := spec.termination_grace_period_seconds) is None else grace,
            restart_policy=ALWAYS if spec.restart_policy == ALWAYS else plates.names.share(spec.restart_policy),
            phase=phase,
            ready=_all_ready(status.container_statuses or ()),
            nominated_node=plates.names.share(status.nominated_node_name) if status.nominated_node_name else "",
            unplaced_since=unplaced_since,
            unplaced_reason=unplaced_reason,
            placed_at=placed_at,
            accepted_at=status.start_time,
            started_at=started_at,
            starts=self._starts(spec, status) if spec.init_containers or len(spec.containers) > 1 else None,
            ended_at=_ended_at(status) if phase in _FINISHED else None,
        )

    def _starts(self, spec: SpecWire, status: _StatusWire) -> tuple[tuple[str, datetime], ...]:
        """By resource; what the pod as a whole asks for, or has as overhead, every container does."""
        whole_pod = (*self.specs.asked(spec.resources), *self.specs.overhead(spec.overhead))
        starts: dict[str, datetime] = {}
        for containers, statuses in (
            (spec.init_containers or (), status.init_container_statuses or ()),
            (spec.containers, status.container_statuses or ()),
        ):
            asked = {container.name: self.specs.asked(container.resources) for container in containers}
            for each in statuses:
                start = _started_at(status, [each])
                if start is None:
                    continue
                for name in (*asked.get(each.name, ()), *whole_pod):
                    if name not in starts or start < starts[name]:
                        starts[name] = start
        return tuple(sorted(starts.items()))

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, Pod]) -> Pod:
        return Pod(**self.plates.bare(found, known))


def _started_at(status: _StatusWire, containers: list[_ContainerStatusWire]) -> datetime | None:
    """The earliest start in the statuses: a restarted container shows one earlier run."""
    earliest: datetime | None = None
    for container in containers:
        for state in (container.state, container.last_state):
            if state is None:
                continue
            stretch = state.running or state.terminated
            if stretch is None:
                continue
            # A container that was lost has no times: it may have started as soon as the kubelet accepted the pod.
            start = stretch.started_at or status.start_time
            if start is not None and (earliest is None or start < earliest):
                earliest = start
    return earliest


def _all_ready(containers: Sequence[_ContainerStatusWire]) -> bool:
    """Not by the condition Ready, which costs a parse for each pod: with readiness gates this may be too early."""
    return bool(containers) and all(each.ready for each in containers)


def _ended_at(status: _StatusWire) -> datetime | None:
    """The last end of a container; without one, when the pod was told to go, else when it stopped being ready."""
    statuses: list[_ContainerStatusWire] = [*(status.container_statuses or ()), *(status.init_container_statuses or ())]
    ends = [
        container.state.terminated.finished_at
        for container in statuses
        if container.state and container.state.terminated and container.state.terminated.finished_at
    ]
    if ends:
        return max(ends)
    told = [each for each in _conditions(status, "DisruptionTarget") if each.status == "True"]
    unready = [each for each in _conditions(status, "Ready") if each.status == "False"]
    return next((each.last_transition_time for each in (*told, *unready) if each.last_transition_time), None)


def _unplaced(status: _StatusWire) -> tuple[datetime | None, str]:
    for condition in _conditions(status, "PodScheduled"):
        if condition.status == "False":
            return condition.last_transition_time, condition.reason or ""
    return None, ""


def _resizes(status: _StatusWire) -> bool:
    """Whether its kubelet has still to do a resize, or is doing it."""
    return status.conditions is not ABSENT and b'"PodResize' in bytes(status.conditions)


def _allotted(spec: SpecWire, status: _StatusWire) -> SpecWire:
    """Until a resize is done the scheduler reserves the larger of what is asked for and what is allotted."""
    told = {each.name: each for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))}

    def larger(container: ContainerWire) -> ContainerWire:
        held = told.get(container.name)
        return container if held is None else at_least(container, held.allocated_resources, held.resources)

    init = None if spec.init_containers is None else tuple(map(larger, spec.init_containers))
    return msgspec.structs.replace(spec, containers=tuple(map(larger, spec.containers)), init_containers=init)


def _placed_at(meta: MetaWire, status: _StatusWire) -> datetime | None:
    """None: soon after its creation. Most pods do not wait, and there are many."""
    for condition in _conditions(status, "PodScheduled"):
        at, created = condition.last_transition_time, meta.creation_timestamp
        if condition.status == "True" and at is not None and created is not None and at - created > _SOON:
            return at
    return None


def _conditions(status: _StatusWire, kind: str) -> list[_ConditionWire]:
    document = bytes(status.conditions)
    every = _CONDITIONS.decode(document) if document else None
    return [condition for condition in every or () if condition.type == kind]


_SOON = timedelta(minutes=1)
_FINISHED = (SUCCEEDED, FAILED)
_NO_CLAIMS = (b"null", b"[]")
_CONDITIONS: msgspec.json.Decoder[list[_ConditionWire] | None] = msgspec.json.Decoder(list[_ConditionWire] | None)
