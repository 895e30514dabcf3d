"""`python -m bench cache`: both sides in turn on the same pods, again and again; the medians are compared."""

import argparse
import asyncio
import os
import statistics
import sys
from dataclasses import astuple

from bench.cache.clients import Client, EndedEarly, Figures, Server, contenders, curiosities, measure, serving
from bench.cache.programs import Programs, programs
from tools.toolbox.module import BuildFailed

SMALL, LARGE = 10_000, 100_000
CHANGES_PER_POD = 0.6  # 60,000 changes on 100,000 pods: seconds of work, so that the clock's grain does not matter
LEAST_CHANGES = 20_000
HEADER = (
    f"{'':<34}{'list s':>8}{'CPU s':>8}{'RSS MiB':>9}{'natural':>9}{'peak':>8}{'later':>8}{'chg/s':>9}{'us/chg':>8}"
)


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench cache", description=__doc__)
    parser.add_argument("--pods", type=int, action="append", help="how many; may be given again (10000 and 100000)")
    parser.add_argument("--rounds", type=int, default=3, help="of every client, in turn (3)")
    parser.add_argument("--quick", action="store_true", help="10000 pods, one round, no worst case")
    chosen = parser.parse_args(options)
    sizes = chosen.pods or ([SMALL] if chosen.quick else [SMALL, LARGE])
    try:
        built = programs(_say)
        asyncio.run(_measure(built, sizes, 1 if chosen.quick else chosen.rounds, worst=not chosen.quick))
    except (BuildFailed, EndedEarly) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


async def _measure(built: Programs, sizes: list[int], rounds: int, *, worst: bool) -> None:
    medians: dict[Client, Figures] = {}
    for pods in sizes:
        medians = await _compare(built, pods, rounds, curious=worst)
    if worst:
        await _worst(built, sizes[-1])
    print(_verdict(medians))


async def _compare(built: Programs, pods: int, rounds: int, *, curious: bool) -> dict[Client, Figures]:
    changes = max(LEAST_CHANGES, int(pods * CHANGES_PER_POD))
    _say(f"\n{pods} pods: rendering …")
    clients = contenders(built)
    seen: dict[Client, list[Figures]] = {client: [] for client in clients}
    async with serving(built, pods, changes, unique=False) as server:
        _say(f"{pods} pods of {server.mean_bytes} bytes in the mean, {changes} changes, {_load()}\n{HEADER}")
        for turn in range(rounds):
            for client in clients:
                seen[client].append(await _shown(client, server, changes, f"{turn + 1}/{rounds}"))
        if curious:
            for client in curiosities(built):
                await _shown(client, server, changes, "1/1")
    medians = {client: _median(figures) for client, figures in seen.items()}
    _say(f"medians of {rounds}, {_load()}")
    for client, figures in medians.items():
        print(_row(client.name, figures), flush=True)
    return medians


async def _worst(built: Programs, pods: int) -> None:
    changes = max(LEAST_CHANGES, int(pods * CHANGES_PER_POD))
    _say(f"\nworst case, {pods} pods of which no two share a sub-document: rendering …")
    async with serving(built, pods, changes, unique=True) as server:
        _say(HEADER)
        for client in contenders(built):
            await _shown(client, server, changes, "1/1")


async def _shown(client: Client, server: Server, changes: int, turn: str) -> Figures:
    figures = await measure(client, server, changes)
    print(_row(f"{client.name} {turn}", figures), flush=True)
    return figures


def _median(figures: list[Figures]) -> Figures:
    return Figures(*(statistics.median(column) for column in zip(*map(astuple, figures), strict=True)))


def _verdict(medians: dict[Client, Figures]) -> str:
    """Ours over the better of the peer's variants, figure by figure: each time the one that is hardest on us."""
    ours = next(figures for client, figures in medians.items() if client.ours)
    peers = [figures for client, figures in medians.items() if not client.ours]
    listed = ours.list_seconds / min(peer.list_seconds for peer in peers)
    memory = ours.settled_mib / min(peer.settled_mib for peer in peers)
    work = ours.cpu_us_per_change / min(peer.cpu_us_per_change for peer in peers)
    return f"cache list={listed:.2f} rss={memory:.2f} cpu={work:.2f}"


def _row(name: str, figures: Figures) -> str:
    return (
        f"{name:<34}{figures.list_seconds:>8.2f}{figures.list_cpu_seconds:>8.2f}{figures.settled_mib:>9.0f}"
        f"{figures.natural_mib:>9.0f}{figures.peak_mib:>8.0f}{figures.after_changes_mib:>8.0f}"
        f"{figures.changes_per_second:>9.0f}{figures.cpu_us_per_change:>8.1f}"
    )


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def _say(line: str) -> None:
    print(line, flush=True)
