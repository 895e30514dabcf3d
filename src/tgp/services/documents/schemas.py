"""The JSON Schema of each document, from its type."""

from typing import Any

import msgspec

from tgp.services.documents import (
    API_VERSION,
    budgets,
    checks,
    connectivity,
    costs,
    crds,
    doctor,
    down,
    imports,
    kinds,
    machines,
    manifests,
    market,
    nodes,
    plans,
    reasons,
    rent,
    requests,
    simulation,
    templates,
)

DOCUMENTS: dict[str, Any] = {  # the type, by kind
    "Bill": simulation.BillDocument,
    "BreakEven": market.BreakEvenDocument,
    "Budget": budgets.BudgetDocument,
    "BudgetEnquiry": budgets.BudgetEnquiryDocument,
    "BudgetList": budgets.BudgetList,
    "BudgetReport": budgets.BudgetReportDocument,
    "BudgetReset": budgets.BudgetReset,
    "BudgetSimulation": budgets.BudgetSimulation,
    "CheckReport": checks.CheckReportDocument,
    "ClassList": kinds.ClassList,
    "ConnectivityReport": connectivity.ConnectivityReportDocument,
    "ConsolidationPlan": plans.ConsolidationPlanDocument,
    "CostReport": costs.CostReport,
    "DoctorReport": doctor.DoctorReportDocument,
    "DownReport": down.DownReport,
    "Faults": simulation.FaultsDocument,
    "Fleet": simulation.FleetDocument,
    "GpuPriceList": market.GpuPriceList,
    "HoldReport": machines.HoldReport,
    "ImportReport": imports.ImportReport,
    "KindDifference": crds.KindDifference,
    "MachineTestReport": nodes.MachineTestReport,
    "ManifestReport": manifests.ManifestReport,
    "MarkedMachineList": machines.MarkedMachineList,
    "NodeReason": reasons.NodeReason,
    "NodesReport": nodes.NodesReportDocument,
    "OfferList": market.OfferList,
    "PodPlan": plans.PodPlanDocument,
    "PodReason": reasons.PodReason,
    "PoolList": kinds.PoolList,
    "PoolReason": reasons.PoolReasonDocument,
    "RentPlan": rent.RentPlanDocument,
    "RequestReason": requests.RequestReason,
    "RequestTimeline": requests.RequestTimelineDocument,
    "StatusReport": requests.StatusReport,
    "TemplateCheck": templates.TemplateCheck,
}
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: str) -> dict[str, Any]:
    """Complete in itself. Raises KeyError."""
    (root,), parts = msgspec.json.schema_components((DOCUMENTS[kind],), ref_template="#/$defs/{name}")
    return {"$schema": DIALECT, "title": f"{API_VERSION} {kind}", **root, "$defs": parts}


def components(kinds: tuple[str, ...]) -> tuple[dict[str, dict[str, Any]], dict[str, Any]]:
    """For an OpenAPI document: a reference for each kind, and the parts that they refer to."""
    references, parts = msgspec.json.schema_components(
        tuple(DOCUMENTS[kind] for kind in kinds), ref_template="#/components/schemas/{name}"
    )
    return dict(zip(kinds, references, strict=True)), parts
