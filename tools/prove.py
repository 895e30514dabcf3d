"""`make prove`: what takes hours, before a release. One table in the end: step, what it proves, time, result.

The same tests as in `make test`, with the amounts of `TGP_PROVE=1` (`tests/amounts.py`). With names, only those steps.
"""

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tools.lanes import Run, side_by_side, width
from tools.screen import LiveScreen, clock, summary
from tools.steps import Step

AMOUNTS = ("env", "TGP_PROVE=1")


@dataclass(frozen=True, slots=True)
class Proof:
    name: str
    proves: str
    words: tuple[str, ...]  # for pytest
    variables: tuple[str, ...] = ()
    waits: bool = False

    def step(self) -> Step:
        pytest = (sys.executable, "-m", "pytest", "-p", "tools.told", *self.words)
        return Step(self.name, (*AMOUNTS, *self.variables, *pytest), waits=self.waits)


HOSTILE = (
    "tests/core/talos/test_fuzz.py",
    "tests/core/joining/test_tenants.py",
    "tests/core/apiserver/test_garbage.py",
)
# The longest first.
OF_THE_SIMULATION = (
    Proof("faults", "5000 hours of random faults lose no money and notice 14 mutants", ("tests/sim/test_safety.py",)),
    Proof(
        "plans",
        "all five faults at each side effect of three workloads and of pools",
        ("tests/sim/lifecycle/test_enumerated.py",),
    ),
    Proof(
        "lifecycle",
        "60 random worlds, 100 random histories, 500 forgeries, 1000 requests at once",
        ("tests/sim/lifecycle", "--ignore=tests/sim/lifecycle/test_enumerated.py"),
    ),
    Proof("mutants", "every mutant is killed by its history", ("tests/sim/mutants",)),
    Proof(
        "moves",
        "all five faults at each side effect of a replaced machine and of two exchanged for one; pools come to rest",
        ("tests/sim/test_disruption_crashes.py", "tests/sim/test_exchanges.py"),
    ),
    Proof(
        "budgets",
        "budgets for 20 days with kills, 20 times with random faults, and with a crash at each write",
        ("tests/sim/test_budget_histories.py", "tests/sim/test_budgets.py"),
    ),
    Proof("joining plans", "all five faults at each side effect of joining", ("tests/sim/joining",)),
    Proof(
        "replicas",
        "two replicas, 12 times with random faults; pools 20 times; a day of each trouble that lasts",
        (
            "tests/sim/test_operator.py",
            "tests/sim/test_legacy_budgets.py",
            "tests/sim/test_pools.py",
            "tests/sim/test_runaway.py",
            "tests/sim/test_gangs.py",
            "tests/sim/test_pool_histories.py",
            "tests/sim/test_power_faults.py",
            "tests/sim/test_canaries.py",
        ),
    ),
)
PROOFS = (
    *OF_THE_SIMULATION,
    Proof(
        "simulation",
        "everything else in virtual time, with the shipped Lease, watches and pauses",
        ("tests/sim", *(f"--ignore={word}" for proof in OF_THE_SIMULATION for word in proof.words if word[0] != "-")),
    ),
    Proof("day", "a day of the embedded world", ("tests/cli/test_embedded_world.py",)),
    Proof(
        "forgeries",
        "500 forgeries of a tenant against a real API server",
        ("tests/controlplane/test_hostile_tenant.py",),
        waits=True,
    ),
    Proof(
        "uninstall",
        "the life of an installation by both Helms; an uninstallation that would strand machines is refused",
        (
            "tests/controlplane/test_install.py",
            "tests/controlplane/test_uninstall.py",
            "tests/controlplane/test_installed.py",
        ),
        waits=True,
    ),
    Proof(
        "scheduler",
        "5000 pairs and 1000 small clusters, judged by the real kube-scheduler",
        ("tests/controlplane/test_scheduler_judge.py",),
    ),
    Proof("http api", "200 cases for each page of the HTTP API, by schemathesis", ("tests/clients/schemathesis",)),
    Proof("clouds", "10,000 wrong answers for each provider, 5 worlds for each promise", ("tests/contracts/clouds",)),
    Proof("meshes", "5000 spoiled answers and 50 worlds with random faults for each mesh", ("tests/contracts/mesh",)),
    Proof(
        "talos",
        "2500 random changes and 100,000 hostile values, judged by every Talos release",
        ("tests/contracts/talos",),
        ("TGP_TALOS=all",),
    ),
    Proof("planner", "20,000 odd worlds, and 4000 small ones solved whole beside it", ("tests/core/pools/planner",)),
    Proof("nominations", "20 machines run the pods they were bought for", ("tests/controlplane/test_pools.py",)),
    Proof("kubectl", "every script of kubectl's is answered as by the real API server", ("tests/contracts/kubectl",)),
    Proof(
        "properties",
        "1000 examples of each property of a decision",
        ("tests/core", "--ignore=tests/core/pools/planner", *(f"--ignore={path}" for path in HOSTILE)),
    ),
    Proof("manifests", "10,000 manifests, judged by the current API server", ("tests/contracts/kinds",)),
    Proof(
        "oldest manifests",
        "10,000 manifests, judged by the oldest API server",
        ("--kubernetes", "1.28", "tests/contracts/kinds"),
    ),
    Proof(
        "oldest joining",
        "machines join a control plane of the oldest release",
        ("--kubernetes", "1.28", "tests/controlplane/test_joining.py"),
        waits=True,
    ),
    Proof(
        "oldest budgets",
        "budgets count, evict, pause and hold on a control plane of the oldest release",
        ("--kubernetes", "1.28", "tests/controlplane/test_budgets.py"),
        waits=True,
    ),
    Proof("hostile values", "100,000 hostile values, 1000 bodies of garbage for each kind", HOSTILE),
)


def main(chosen: Sequence[str]) -> int:
    if unknown := set(chosen) - {proof.name for proof in PROOFS}:
        names = ", ".join(proof.name for proof in PROOFS)
        print(f"✗ there is no {', '.join(sorted(unknown))}; choose from {names}", file=sys.stderr)
        return 2
    began = time.perf_counter()
    wanted = [proof for proof in PROOFS if not chosen or proof.name in chosen]
    print(f"· {len(wanted)} proofs, on {width()} cores; all of them take hours …", flush=True)
    runs = side_by_side([proof.step() for proof in wanted], LiveScreen(), width())
    print("\n".join((*summary(runs, time.perf_counter() - began), *table(wanted, runs))))
    return int(not all(run.good for run in runs))


def table(proofs: Sequence[Proof], runs: Sequence[Run]) -> Iterator[str]:
    by_name = {run.step.name: run for run in runs}
    wide, far = (
        max(len(each) for each in column) for column in zip(*((p.name, p.proves) for p in proofs), strict=True)
    )
    yield f"{'step':<{wide}}  {'what it proves':<{far}}  {'time':>7}  result"
    for proof in proofs:
        run = by_name[proof.name]
        result = "proved" if run.good else f"FAILED ({len(run.failed())} tests)" if run.failed() else "FAILED"
        yield f"{proof.name:<{wide}}  {proof.proves:<{far}}  {clock(run.seconds):>7}  {result}"


if __name__ == "__main__":
    try:
        sys.exit(main([name for name in " ".join(sys.argv[1:]).split(",") if name]))
    except KeyboardInterrupt:
        sys.exit(130)
