"""Every promise and every provider, found in their folders. TGP_CLOUDS=vast,gcp keeps only those providers."""

import os
from functools import cache
from importlib import import_module
from pathlib import Path

from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.suite import PROMISES, Promise

HERE = Path(__file__).parent
PACKAGE = "tests.contracts.clouds"


@cache
def all_promises() -> tuple[Promise, ...]:
    for module in _modules("promises"):
        import_module(module)
    return tuple(PROMISES.values())


@cache
def all_providers() -> tuple[Provider, ...]:
    wanted = [name for name in os.environ.get("TGP_CLOUDS", "").split(",") if name]
    modules = [m for m in _modules("providers") if not wanted or m.rpartition(".")[2] in wanted]
    return tuple(import_module(module).PROVIDER for module in modules)


def _modules(folder: str) -> list[str]:
    return [f"{PACKAGE}.{folder}.{path.stem}" for path in sorted((HERE / folder).glob("*.py"))]
