"""All cases, by the act of importing them."""

from tests.contracts.apiserver.cases import (
    access,
    applying,
    binding,
    certificates,
    definitions,
    deleting,
    discovery,
    events,
    evicting,
    forms,
    leasing,
    listing,
    ourkinds,
    ownership,
    patching,
    schemas,
    secrets,
    selecting,
    strategic,
    tables,
    walks,
    watching,
    workloads,
    writing,
)
from tests.contracts.apiserver.suite import CASES, Area, Case

MODULES = (
    access,
    applying,
    binding,
    certificates,
    definitions,
    deleting,
    discovery,
    events,
    evicting,
    forms,
    leasing,
    listing,
    ourkinds,
    ownership,
    patching,
    schemas,
    secrets,
    selecting,
    strategic,
    tables,
    walks,
    watching,
    workloads,
    writing,
)


def all_cases() -> list[Case]:
    return list(CASES)


def cases_of(*areas: Area) -> list[Case]:
    return [case for case in CASES if case.area in areas]
