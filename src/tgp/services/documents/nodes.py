"""Documents about Nodes with GPUs, and about machines you own."""

from datetime import timedelta
from typing import Literal, NotRequired, TypedDict

from tgp.api.values import rfc3339
from tgp.core.model.object_key import ObjectKey
from tgp.services.documents import API_VERSION, ApiVersion, Moment, ObjectName, usd
from tgp.services.nodes import MachineNode, NodesReport, address_of, state_of


class NodeItem(TypedDict):
    name: str
    kind: str
    provider: str | None
    state: str
    gpu: str | None
    gpus: int
    gpusUsed: int | None
    usdPerHour: float | None
    bootSeconds: int | None
    createdAt: Moment | None
    address: str | None
    request: ObjectName | None


class NodesReportDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["NodesReport"]
    asOf: Moment
    nodes: list[NodeItem]
    more: NotRequired[bool]


class MachineTestReport(TypedDict):
    """What `tgp node test` found of a machine you own."""

    apiVersion: ApiVersion
    kind: Literal["MachineTestReport"]
    machine: str
    request: ObjectName
    works: bool
    onSeconds: float | None  # null: it was not ready
    offSeconds: float | None  # null: it was not seen to power off
    problem: str


def nodes_report(report: NodesReport) -> NodesReportDocument:
    return NodesReportDocument(
        apiVersion=API_VERSION,
        kind="NodesReport",
        asOf=rfc3339(report.now),
        nodes=[_node_item(row) for row in report.nodes],
    )


def _node_item(row: MachineNode) -> NodeItem:
    made = row.node.created_at if row.node is not None else None
    return {
        "name": row.name,
        "kind": row.kind,
        "provider": row.provider or None,
        "state": state_of(row),
        "gpu": row.gpu or None,
        "gpus": row.gpus,
        "gpusUsed": row.used,
        "usdPerHour": usd(row.hourly_microusd) if row.hourly_microusd is not None else None,
        "bootSeconds": int(row.boot.total_seconds()) if row.boot is not None else None,
        "createdAt": rfc3339(made) if made is not None else None,
        "address": (address_of(row.node) or None) if row.node is not None else None,
        "request": {"namespace": row.request.namespace, "name": row.request.name} if row.request is not None else None,
    }


def machine_test_report(
    machine: str, request: ObjectKey, *, on: timedelta | None, off: timedelta | None, problem: str
) -> MachineTestReport:
    """`on`, `off`: how long it took; None: it was not seen."""
    return MachineTestReport(
        apiVersion=API_VERSION,
        kind="MachineTestReport",
        machine=machine,
        request={"namespace": request.namespace, "name": request.name},
        works=on is not None and off is not None,
        onSeconds=None if on is None else on.total_seconds(),
        offSeconds=None if off is None else off.total_seconds(),
        problem=problem,
    )
