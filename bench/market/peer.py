"""Run in gpuhunt's own environment: the same offers in its types, the same questions to its own code, timed.

python peer.py <file of items and questions>. Both of its ways are taken: its whole `Catalog.query`, and its bare filter
and a sort by price; the comparison uses the faster one.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

from gpuhunt import Catalog, CatalogItem, QueryFilter  # type: ignore[import-not-found]  # it lives in its own environment
from gpuhunt._internal.catalog import OFFLINE_PROVIDERS, ProviderCatalog  # type: ignore[import-not-found]  # it lives in its own environment
from gpuhunt._internal.constraints import matches  # type: ignore[import-not-found]  # it lives in its own environment
from gpuhunt._internal.models import AcceleratorVendor, CPUArchitecture  # type: ignore[import-not-found]  # it lives in its own environment


def main() -> None:
    asked = json.loads(Path(sys.argv[1]).read_text())
    items = [item(row) for row in asked["items"]]
    catalog = filled(items)
    answers, bare, whole = [], [], []
    for question in asked["questions"]:
        query = QueryFilter(**question | arch(question))
        took, found = timed(
            lambda query=query: sorted((i for i in items if matches(i, query)), key=price), asked["rounds"]
        )
        bare.append(took)
        took, merged = timed(lambda question=question: catalog.query(**question), asked["rounds"])
        whole.append(took)
        assert sorted(map(name, found)) == sorted(map(name, merged)), "its two ways differ"
        answers.append([name(each) for each in found])
    json.dump({"answers": answers, "bare": bare, "whole": whole}, sys.stdout)


def arch(question: dict[str, Any]) -> dict[str, Any]:
    return {"cpu_arch": CPUArchitecture.cast(question["cpu_arch"])} if "cpu_arch" in question else {}


def price(each: CatalogItem) -> float:
    return float(each.price)


def name(each: CatalogItem) -> str:
    return f"{each.provider_data['key']}"


def item(row: dict[str, Any]) -> CatalogItem:
    key = row.pop("key")
    vendor, cpu = AcceleratorVendor.cast(row.pop("gpu_vendor")), CPUArchitecture.cast(row.pop("cpu_arch"))
    return CatalogItem(**row, gpu_vendor=vendor, cpu_arch=cpu, provider_data={"key": key})


def filled(items: list[CatalogItem]) -> Catalog:
    """Its catalogue takes only providers it knows: ours stand under their names, each sorted by price as it wants."""
    catalog = Catalog(balance_resources=False, auto_reload=False)
    names = sorted({each.provider for each in items})
    for own, borrowed in zip(names, OFFLINE_PROVIDERS, strict=False):
        shelf = sorted((each for each in items if each.provider == own), key=price)
        for each in shelf:
            each.provider = borrowed
        catalog.catalog[borrowed] = ProviderCatalog("bench", shelf)
    for empty in OFFLINE_PROVIDERS[len(names) :]:
        catalog.catalog[empty] = ProviderCatalog("bench", [])
    catalog.loaded_at = time.monotonic()
    return catalog


def timed(work: Any, rounds: int) -> tuple[list[float], list[CatalogItem]]:
    lengths, found = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        found = work()
        lengths.append(time.perf_counter() - began)
    return lengths, found


main()
