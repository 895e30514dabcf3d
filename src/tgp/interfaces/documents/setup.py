"""Documents about what is checked before anything is bought, and what is imported."""

from typing import Any, Literal, TypedDict

from tgp.interfaces.documents import ApiVersion


class KeyRightItem(TypedDict):
    name: str
    granted: bool | None
    note: str


class ProviderCheckItem(TypedDict):
    provider: str
    works: bool | None
    key: str
    keyVariable: str
    message: str
    account: str
    rights: list[KeyRightItem]
    balanceUsd: float | None
    quota: str
    canBuy: bool | None
    offers: int | None
    cheapestUsdPerGpuHour: float | None
    bootModes: list[str]
    canJoinTalos: bool
    whatFollows: str
    notes: list[str]


class ClusterCheckItem(TypedDict):
    title: str
    good: bool | None
    message: str
    command: str


class CheckReportDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["CheckReport"]
    providers: list[ProviderCheckItem]
    cluster: list[ClusterCheckItem]
    summary: str
    exitCode: int


class FieldProblemItem(TypedDict):
    field: str
    message: str


class CheckedObjectItem(TypedDict):
    file: str
    line: int
    object: str
    checked: bool
    problems: list[FieldProblemItem]


class ManifestReport(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["ManifestReport"]
    objects: list[CheckedObjectItem]
    summary: str
    exitCode: int


class ImportedFieldItem(TypedDict):
    file: str
    line: int
    object: str
    field: str
    outcome: str
    message: str


class ImportReport(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["ImportReport"]
    objects: list[dict[str, Any]]
    values: dict[str, Any]
    fields: list[ImportedFieldItem]
    summary: str
    exitCode: int


class TemplatePlace(TypedDict):
    line: int | None
    fileLine: int | None
    path: str
    message: str


class TemplateFinding(TemplatePlace):
    severity: str


class BootsItem(TypedDict):
    name: str
    boots: bool
    message: str


class TemplateItem(TypedDict):
    title: str
    talos: str
    backend: str
    template: bool
    fine: bool
    summary: str
    findings: list[TemplateFinding]
    conversions: list[TemplatePlace]
    providers: list[BootsItem]


class TemplateCheck(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["TemplateCheck"]
    templates: list[TemplateItem]
    exitCode: int


class KindDifferenceItem(TypedDict):
    name: str
    installed: bool
    difference: str  # a unified diff; empty: the same


class KindDifference(TypedDict):
    """The cluster's custom resource definitions beside those of this release."""

    apiVersion: ApiVersion
    kind: Literal["KindDifference"]
    kinds: list[KindDifferenceItem]
