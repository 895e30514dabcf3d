"""The projections of the kinds we watch, ready to use. Each call makes a new one, with pools of its own."""

from typing import TypeVar

from tgp.adapters.kube.records.node import NodeReader
from tgp.adapters.kube.records.pod import PodReader
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.records.signing import SigningReader
from tgp.adapters.kube.records.storage import ClaimReader, StorageClassReader, VolumeReader
from tgp.adapters.kube.records.typed import TypedReader
from tgp.adapters.kube.records.workloads import (
    METADATA_LIST_ONLY,
    METADATA_ONLY,
    DaemonSetReader,
    DisruptionBudgetReader,
    JobReader,
    MetadataReader,
    NamespaceReader,
)
from tgp.api.resource import (
    CERTIFICATE_SIGNING_REQUEST,
    DAEMON_SET,
    GPU_NODE_CLASS,
    JOB,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    STORAGE_CLASS,
    Resource,
)
from tgp.core.inventory.holdings import STAND_IN
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.signing import KUBELET_SIGNER, SigningRequest
from tgp.core.model.storage import Claim, StorageClass, Volume
from tgp.core.model.workload import DaemonSet, Job, Metadata, Namespace, PodDisruptionBudget

T = TypeVar("T")


def pods() -> Projection[Pod]:
    reader = PodReader()
    return Projection(POD, reader, pools=reader.pools)


def nodes() -> Projection[Node]:
    reader = NodeReader()
    return Projection(NODE, reader, pools=reader.pools)


def namespaces() -> Projection[Namespace]:
    reader = NamespaceReader()
    return Projection(NAMESPACE, reader, pools=reader.pools)


def daemon_sets() -> Projection[DaemonSet]:
    reader = DaemonSetReader()
    return Projection(DAEMON_SET, reader, pools=reader.pools)


def jobs() -> Projection[Job]:
    reader = JobReader()
    return Projection(JOB, reader, pools=reader.pools)


def disruption_budgets() -> Projection[PodDisruptionBudget]:
    reader = DisruptionBudgetReader()
    return Projection(POD_DISRUPTION_BUDGET, reader, pools=reader.pools)


def claims() -> Projection[Claim]:
    reader = ClaimReader()
    return Projection(PERSISTENT_VOLUME_CLAIM, reader, pools=reader.pools)


def volumes() -> Projection[Volume]:
    reader = VolumeReader()
    return Projection(PERSISTENT_VOLUME, reader, pools=reader.pools)


def storage_classes() -> Projection[StorageClass]:
    reader = StorageClassReader()
    return Projection(STORAGE_CLASS, reader, pools=reader.pools)


def signing_requests() -> Projection[SigningRequest]:
    """Those for the signer we handle."""
    reader = SigningReader()
    selector = f"spec.signerName={KUBELET_SIGNER}"
    return Projection(CERTIFICATE_SIGNING_REQUEST, reader, pools=reader.pools, field_selector=selector)


def metadata_of(resource: Resource) -> Projection[Metadata]:
    """Any kind by its metadata alone: Secrets, whose contents must not stay in memory."""
    reader = MetadataReader()
    return Projection(resource, reader, pools=reader.pools, accept=METADATA_ONLY, accept_list=METADATA_LIST_ONLY)


def typed(resource: Resource, kind: type[T]) -> Projection[KubeObject[T]]:
    """One of our own kinds, as its typed value. The class that only the guard reads is none to anyone else."""
    reader = TypedReader(kind)
    selector = f"metadata.name!={STAND_IN}" if resource == GPU_NODE_CLASS else ""
    return Projection(resource, reader, pools=reader.pools, field_selector=selector)
