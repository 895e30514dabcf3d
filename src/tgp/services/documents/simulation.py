"""Documents about the simulated market, as its admin API answers."""

from typing import Any, Literal, TypedDict

from tgp.services.documents import ApiVersion


class FleetDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["Fleet"]
    machines: list[dict[str, Any]]


class BillDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["Bill"]
    accounts: list[dict[str, Any]]


class FaultsDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["Faults"]
    faults: list[dict[str, Any]]
