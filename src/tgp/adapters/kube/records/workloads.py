"""DaemonSets, Jobs, PodDisruptionBudgets, Namespaces, and any kind by its metadata alone."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tgp.adapters.kube.records.meta import ABSENT, MetaWire, ObjectMetaReader, PartialObject, given
from tgp.adapters.kube.records.podspec import SelectorWire, Specs, SpecWire
from tgp.core.model.labels import NO_LABELS, NOTHING_AT_ALL
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.workload import DaemonSet, Job, Metadata, Namespace, PodDisruptionBudget

# Asks the API server to send the metadata only: a Secret's data is not even sent.
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
METADATA_LIST_ONLY = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"


class MetadataOnlyWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire


class MetadataReader:
    """Secrets and ConfigMaps: that they exist, and when they change. The content is read when needed."""

    wire = MetadataOnlyWire

    def __init__(self) -> None:
        self._plates = ObjectMetaReader()
        self.pools = self._plates.pools()

    def read(self, wire: MetadataOnlyWire, known: Mapping[ObjectKey, Metadata]) -> Metadata:
        return Metadata(**_plate(self._plates, wire.metadata, known))

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, Metadata]) -> Metadata:
        return Metadata(**self._plates.bare(found, known))


class _NamespaceStatusWire(msgspec.Struct, frozen=True, gc=False):
    phase: str = "Active"


class NamespaceWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire
    status: _NamespaceStatusWire = _NamespaceStatusWire()


class NamespaceReader:
    wire = NamespaceWire

    def __init__(self) -> None:
        self._plates = ObjectMetaReader()
        self.pools = self._plates.pools()

    def read(self, wire: NamespaceWire, known: Mapping[ObjectKey, Namespace]) -> Namespace:
        terminating = wire.status.phase == "Terminating"
        return Namespace(**_plate(self._plates, wire.metadata, known), terminating=terminating)

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, Namespace]) -> Namespace:
        return Namespace(**self._plates.bare(found, known))


class _ImageWire(msgspec.Struct, frozen=True, gc=False):
    image: str = ""


class _ImagesWire(msgspec.Struct, frozen=True, gc=False):
    containers: tuple[_ImageWire, ...] = ()


class _TemplateMetaWire(msgspec.Struct, frozen=True, gc=False):
    labels: msgspec.Raw = ABSENT


class _TemplateWire(msgspec.Struct, frozen=True, gc=False):
    metadata: _TemplateMetaWire = _TemplateMetaWire()
    spec: msgspec.Raw = ABSENT


class _DaemonSetSpecWire(msgspec.Struct, frozen=True, gc=False):
    template: _TemplateWire = _TemplateWire()


class DaemonSetWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire
    spec: _DaemonSetSpecWire = _DaemonSetSpecWire()


class DaemonSetReader:
    wire = DaemonSetWire

    def __init__(self) -> None:
        self._plates = ObjectMetaReader()
        self._specs = Specs(self._plates)
        self.pools = self._specs.pools()

    def read(self, wire: DaemonSetWire, known: Mapping[ObjectKey, DaemonSet]) -> DaemonSet:
        template = wire.spec.template
        document = bytes(template.spec) or b"{}"
        images = msgspec.json.decode(document, type=_ImagesWire)
        spec = msgspec.json.decode(document, type=SpecWire)
        return DaemonSet(
            **_plate(self._plates, wire.metadata, known),
            **self._specs.placement(spec),
            host_ports=self._specs.host_ports(spec),
            pod_labels=given(template.metadata.labels, self._plates.labels, NO_LABELS),
            images=tuple(container.image for container in images.containers),
        )

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, DaemonSet]) -> DaemonSet:
        return DaemonSet(**self._plates.bare(found, known))


class _JobSpecWire(msgspec.Struct, frozen=True, gc=False):
    suspend: bool | None = None
    parallelism: int | None = None
    completions: int | None = None
    template: _TemplateWire = _TemplateWire()


class _JobConditionWire(msgspec.Struct, frozen=True, gc=False):
    type: str = ""
    status: str = ""


class _JobStatusWire(msgspec.Struct, frozen=True, gc=False):
    succeeded: int | None = None
    conditions: tuple[_JobConditionWire, ...] | None = None


class JobWire(msgspec.Struct, frozen=True, gc=False):
    metadata: MetaWire
    spec: _JobSpecWire = _JobSpecWire()
    status: _JobStatusWire = _JobStatusWire()


class JobReader:
    wire = JobWire

    def __init__(self) -> None:
        self._plates = ObjectMetaReader()
        self._specs = Specs(self._plates)
        self.pools = self._specs.pools()

    def read(self, wire: JobWire, known: Mapping[ObjectKey, Job]) -> Job:
        spec, ends = wire.spec, ("Complete", "Failed")
        template = msgspec.json.decode(bytes(spec.template.spec) or b"{}", type=SpecWire)
        return Job(
            **_plate(self._plates, wire.metadata, known),
            suspended=spec.suspend is True,
            parallelism=1 if spec.parallelism is None else spec.parallelism,
            completions=spec.completions,
            succeeded=wire.status.succeeded or 0,
            finished=any(row.type in ends and row.status == "True" for row in wire.status.conditions or ()),
            pod_labels=given(spec.template.metadata.labels, self._plates.labels, NO_LABELS),
            requests=self._specs.requests(template),
        )

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, Job]) -> Job:
        return Job(**self._plates.bare(found, known))


class _BudgetSpecWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    selector: SelectorWire | None = None  # None selects nothing; an empty one everything (policy/v1)
    unhealthy_pod_eviction_policy: str = ""


class _BudgetStatusWire(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    disruptions_allowed: int = 0
    observed_generation: int = 0


class _GenerationWire(MetaWire, frozen=True, gc=False, rename="camel"):
    generation: int = 0


class DisruptionBudgetWire(msgspec.Struct, frozen=True, gc=False):
    metadata: _GenerationWire
    spec: _BudgetSpecWire = _BudgetSpecWire()
    status: _BudgetStatusWire = _BudgetStatusWire()


class DisruptionBudgetReader:
    wire = DisruptionBudgetWire

    def __init__(self) -> None:
        self._plates = ObjectMetaReader()
        self.pools = self._plates.pools()

    def read(self, wire: DisruptionBudgetWire, known: Mapping[ObjectKey, PodDisruptionBudget]) -> PodDisruptionBudget:
        chosen = wire.spec.selector
        return PodDisruptionBudget(
            **_plate(self._plates, wire.metadata, known),
            selector=NOTHING_AT_ALL if chosen is None else chosen.selector(),
            disruptions_allowed=wire.status.disruptions_allowed,
            current=wire.status.observed_generation >= wire.metadata.generation,
            evicts_unready=wire.spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        )

    def bare(self, found: PartialObject, known: Mapping[ObjectKey, PodDisruptionBudget]) -> PodDisruptionBudget:
        return PodDisruptionBudget(**self._plates.bare(found, known))


def _plate(plates: ObjectMetaReader, meta: MetaWire, known: Mapping[ObjectKey, Any]) -> dict[str, Any]:
    return {**plates.fields(meta, known), "owners": given(meta.owner_references, plates.owners, ())}
