"""One price book in a fresh process: how long it took to make and what it weighs, as JSON.

python -m bench.market.weigh <offers> <seed> <rss|traced>
"""

import gc
import json
import os
import sys
import time
import tracemalloc
from pathlib import Path

from bench.market.offers import NOW, listings
from tgp.core.model.price_book import PriceBook


def main(count: int, seed: int, how: str) -> None:
    book = PriceBook()
    refresh_s = 0.0
    for source, listing in listings(800):  # everything is imported, every table read, before the scale is set to zero
        book = book.with_listing(source, listing, NOW)
    book = PriceBook()
    gc.collect()
    if how == "traced":
        tracemalloc.start()
    before = _resident()
    for source, listing in listings(count, seed):
        began = time.perf_counter()
        book = book.with_listing(source, listing, NOW)
        refresh_s += time.perf_counter() - began
        del listing  # what was read is not kept, only what is bound
    gc.collect()
    weight = tracemalloc.get_traced_memory()[0] if how == "traced" else _resident() - before
    json.dump({"offers": len(book), "refresh_s": refresh_s, "bytes": weight}, sys.stdout)


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
