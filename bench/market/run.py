"""`python -m bench market`: the book is weighed in fresh processes, then both sides answer the same questions."""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.market.offers import NOW, SEED, listings, queries
from tgp.core.market.ranking import rank
from tgp.core.model.gpus import family_members, get
from tgp.core.model.offer import Offer, Stock
from tgp.core.model.offer_query import OfferQuery
from tgp.core.model.price_book import OfferRow, PriceBook
from tgp.core.model.prices import MICRO
from tools.clients import client_environment
from tools.toolbox.trouble import ToolboxError

OFFERS = 50_000
QUESTIONS = 12
WANTED_SPEEDUP = 10
WANTED_MB = 100
BOUND_S = 600.0  # of one subprocess; gpuhunt answers a question in some tenths of a second
REQUIREMENT = "gpuhunt==0.1.34"
ROOT = Path(__file__).parents[2]


class Differ(Exception):
    """The two sides do not answer alike: their times say nothing."""


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench market", description=__doc__)
    parser.add_argument("--offers", type=int, default=OFFERS, help=f"how many (default: {OFFERS})")
    parser.add_argument("--rounds", type=int, default=5, help="of each question, on each side (default: 5)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"of the market and the questions (default: {SEED})")
    asked = parser.parse_args(options)
    try:
        _measure(asked.offers, asked.rounds, asked.seed)
    except (Differ, ToolboxError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _measure(count: int, rounds: int, seed: int) -> None:
    resident, traced = _weigh(count, seed, "rss"), _weigh(count, seed, "traced")
    book_mb = max(resident["bytes"], traced["bytes"]) / 2**20
    refresh_s = resident["refresh_s"]
    print(f"{resident['offers']} offers of 8 providers, listing to snapshot: {refresh_s:.2f} s altogether")
    print(
        f"the book: {resident['bytes'] / 2**20:.0f} MB resident, {traced['bytes'] / 2**20:.0f} MB traced "
        f"(wanted: {WANTED_MB} at most)",
        flush=True,
    )
    book = PriceBook()
    for source, listing in listings(count, seed):
        book = book.with_listing(source, listing, NOW)
    questions = queries(QUESTIONS, seed)
    ours, answers = _ask_book(book, questions, rounds)
    theirs = _ask_peer(book, questions, rounds)
    again, _ = _ask_book(book, questions, rounds)  # before and after: a busy neighbour slows both sides
    _compare(answers, theirs["answers"])
    fits = sum(map(len, answers))
    mine = statistics.median(map(statistics.median, map(_together, ours, again)))
    bare, whole = (statistics.median(map(statistics.median, theirs[way])) for way in ("bare", "whole"))
    print(f"{len(questions)} questions, {fits} fitting offers in all, the same on both sides and in order of price")
    print(f"rank, with a reason for every offer     {mine * 1000:8.2f} ms")
    print(f"gpuhunt, its filter and a sort          {bare * 1000:8.2f} ms")
    print(f"gpuhunt, its Catalog.query              {whole * 1000:8.2f} ms")
    speedup = min(bare, whole) / mine
    print(f"against the faster of the two: {speedup:.1f} times (wanted: {WANTED_SPEEDUP} at least)")
    print(f"market speedup={speedup:.1f} book_mb={book_mb:.0f} refresh_s={refresh_s:.2f}")


def _together(before: list[float], after: list[float]) -> list[float]:
    return [*before, *after]


def _weigh(count: int, seed: int, how: str) -> dict[str, Any]:
    return _told([sys.executable, "-m", "bench.market.weigh", str(count), str(seed), how])


def _told(command: list[str]) -> dict[str, Any]:
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=BOUND_S, check=False)
    if run.returncode:
        raise Differ(f"{command[-2]} ended with code {run.returncode}:\n{run.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(run.stdout)
    return told


def _ask_book(
    book: PriceBook, questions: list[OfferQuery], rounds: int
) -> tuple[list[list[float]], list[list[OfferRow]]]:
    times, answers = [], []
    for query in questions:
        lengths, found = [], []
        for _ in range(rounds):
            began = time.perf_counter()
            found = list(rank(book, query, NOW))
            lengths.append(time.perf_counter() - began)
        times.append(lengths)
        answers.append(found)
    return times, answers


def _ask_peer(book: PriceBook, questions: list[OfferQuery], rounds: int) -> dict[str, Any]:
    python = client_environment("gpuhunt", REQUIREMENT) / "bin" / "python"
    asked = {
        "items": [_item(offer) for offer in book.offers if offer.stock is not Stock.NONE],  # it knows no sold-out ones
        "questions": [_query(query) for query in questions],
        "rounds": rounds,
    }
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(asked, file)
        file.flush()
        return _told([str(python), str(Path(__file__).with_name("peer.py")), file.name])


def _item(offer: Offer) -> dict[str, Any]:
    gpu = get(offer.gpu)
    assert gpu is not None  # the market is made of our table
    return {
        "key": offer.key,
        "provider": offer.provider,
        "instance_name": offer.sku,
        "location": offer.place,
        "price": offer.hourly_microusd / MICRO,
        "cpu": offer.vcpus,
        "memory": float(offer.memory_gib),
        "gpu_count": offer.gpu_count,
        "gpu_name": offer.gpu,
        "gpu_memory": float(offer.gpu_memory_gib),
        "gpu_vendor": gpu.maker,
        "cpu_arch": "arm" if offer.arch == "arm64" else "x86",
        "spot": offer.spot,
        "disk_size": float(offer.disk_gib),
    }


def _query(query: OfferQuery) -> dict[str, Any]:
    """The same question in its words."""
    asked: dict[str, Any] = {
        "gpu_name": [model for name in query.models for model in family_members(name)],
        "min_gpu_count": query.gpu_count,
        "max_gpu_count": query.gpu_count,
        "min_gpu_memory": query.min_gpu_memory_gib,
        "min_cpu": query.min_vcpus,
        "min_memory": query.min_memory_gib,
        "spot": False,
    }
    if query.max_hourly_microusd is not None:
        asked["max_price"] = query.max_hourly_microusd / MICRO
    return asked | ({"cpu_arch": "x86"} if query.arch else {})


def _compare(ours: list[list[OfferRow]], theirs: list[list[str]]) -> None:
    """The same offers; ours in order of price, which equals theirs but for ties."""
    for number, (mine, its) in enumerate(zip(ours, theirs, strict=True)):
        keys = [row.offer.key for row in mine]
        if sorted(keys) != sorted(its):
            raise Differ(f"question {number}: {len(mine)} offers fit here, {len(its)} at gpuhunt, or not the same ones")
        price = {row.offer.key: row.offer.hourly_microusd for row in mine}
        if [price[key] for key in keys] != [price[key] for key in its]:
            raise Differ(f"question {number}: the same offers in another order of price")
