"""The JSON Schema of each document, from its type."""

from typing import Any

import msgspec

from tgp.interfaces.documents import API_VERSION, budgets, machines, market, plans, setup, simulation

DOCUMENTS: dict[str, Any] = {  # the type, by kind
    "Bill": simulation.BillDocument,
    "BreakEven": market.BreakEvenDocument,
    "Budget": budgets.BudgetDocument,
    "BudgetEnquiry": budgets.BudgetEnquiryDocument,
    "BudgetList": budgets.BudgetList,
    "BudgetReport": budgets.BudgetReportDocument,
    "BudgetReset": budgets.BudgetReset,
    "BudgetSimulation": budgets.BudgetSimulation,
    "CheckReport": setup.CheckReportDocument,
    "ClassList": plans.ClassList,
    "ConnectivityReport": machines.ConnectivityReport,
    "ConsolidationPlan": plans.ConsolidationPlanDocument,
    "CostReport": machines.CostReport,
    "DoctorReport": machines.DoctorReportDocument,
    "DownReport": machines.DownReport,
    "Faults": simulation.FaultsDocument,
    "Fleet": simulation.FleetDocument,
    "GpuPriceList": market.GpuPriceList,
    "HoldReport": machines.HoldReport,
    "ImportReport": setup.ImportReport,
    "KindDifference": setup.KindDifference,
    "MachineTestReport": machines.MachineTestReport,
    "ManifestReport": setup.ManifestReport,
    "MarkedMachineList": machines.MarkedMachineList,
    "NodeReason": plans.NodeReason,
    "NodesReport": machines.NodesReportDocument,
    "OfferList": market.OfferList,
    "PodPlan": plans.PodPlanDocument,
    "PodReason": plans.PodReason,
    "PoolList": plans.PoolList,
    "PoolReason": plans.PoolReasonDocument,
    "RentPlan": plans.RentPlanDocument,
    "RequestReason": machines.RequestReason,
    "RequestTimeline": machines.RequestTimelineDocument,
    "StatusReport": machines.StatusReport,
    "TemplateCheck": setup.TemplateCheck,
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
