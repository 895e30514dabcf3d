"""For work on the in-memory server: record the real one once, then compare as often as you like.

    python -m tests.contracts.apiserver record truth.json
    python -m tests.contracts.apiserver compare truth.json [words of a case's name, area or module ...]

A comparison takes seconds and starts nothing.
"""

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.contracts.apiserver.everything import all_cases
from tests.contracts.apiserver.real import real_host
from tests.contracts.apiserver.run import Outcome, difference, prepare, run
from tests.contracts.apiserver.suite import Case
from tgp.sim.loop import run as run_in_virtual_time
from tools.controlplane.plane import ControlPlane, Wanted


def record(path: Path) -> int:
    """Run every case against a real API server of our own; 1 if a case's facts do not hold there."""

    async def real(plane: ControlPlane) -> dict[str, Outcome]:
        async with real_host(plane) as host:
            await prepare(host)
            return await run(host, all_cases())

    with ControlPlane(Wanted()) as plane:
        outcomes = asyncio.run(real(plane))
    path.write_text(json.dumps({name: asdict(outcome) for name, outcome in outcomes.items()}))
    wrong = {name: outcome for name, outcome in outcomes.items() if outcome.failure}
    for name, outcome in wrong.items():
        print(f"== {name}\n{outcome.failure}")
        print("\n".join(json.dumps(note)[:600] for note in outcome.notes))
    print(f"{len(outcomes)} cases recorded, {len(wrong)} of them do not hold on the real server")
    return 1 if wrong else 0


def compare(path: Path, words: list[str]) -> int:
    """Run the cases that contain any of `words` against the in-memory server; 1 if any differs."""
    from tests.contracts.apiserver.fake import fake_host  # late: recording needs no server that may be half-built

    truth = {name: Outcome(**outcome) for name, outcome in json.loads(path.read_text()).items()}
    cases = [case for case in all_cases() if case.name in truth and _is_meant(case, words)]

    async def pretend() -> dict[str, Outcome]:
        host = fake_host()
        await prepare(host)
        return await run(host, cases)

    outcomes = run_in_virtual_time(pretend())
    found = {case.name: difference(truth[case.name], outcomes[case.name]) for case in cases}
    for name, text in found.items():
        if text:
            print(f"== {name}\n{text}")
    wrong = sum(1 for text in found.values() if text)
    print(f"{len(cases)} cases, {wrong} differ")
    return 1 if wrong else 0


def _is_meant(case: Case, words: list[str]) -> bool:
    text = f"{case.area} {case.name} {case.script.__module__}"
    return not words or any(word in text for word in words)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["record", file]:
            sys.exit(record(Path(file)))
        case ["compare", file, *words]:
            sys.exit(compare(Path(file), words))
        case _:
            sys.exit(__doc__)
