"""The last line of a measurement of budgets, its table, and the files that keep both."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.budget.stage import Snapshot, share
from tgp.adapters.telemetry.budgets import ACCURACY

WANTED_ERROR, WANTED_STALE_S = 0.005, 7.0


def last_line(
    snapshots: list[Snapshot], *, count: int, refund: float, away: float, bound: float, scored: list[Snapshot]
) -> tuple[str, bool]:
    """And whether all is as wanted. `scored`: those that the ancestor's bench would have scored."""
    asof = max((each.unexplained for each in snapshots), key=abs, default=0.0)
    scrape = max((each.scrape_error for each in snapshots if each.scrape_error is not None), key=abs, default=0.0)
    stale = max((each.stale_s for each in snapshots if each.moves), default=0.0)
    below = sum(each.below for each in snapshots)
    seed = "/".join(f"{min(share(each.status, each.ideal), 1.0):.3f}" for each in scored)
    recount = "/".join(f"{min(share(each.recount, each.ideal), 1.0):.3f}" for each in scored)
    tracked = max(each.tracked for each in scored)
    line = (
        f"budget tracked={tracked}/{count} asof_error={asof:+.4f} scrape_error={scrape:+.4f} stale_s={stale:.1f} "
        f"refund={refund:+.4f} away={away:+.4f} away_bound={bound:.4f} below_truth={below} seed={seed} "
        f"recount={recount}"
    )
    errors = abs(asof) <= WANTED_ERROR and abs(scrape) <= WANTED_ERROR and abs(refund) <= WANTED_ERROR
    good = errors and stale <= WANTED_STALE_S and not below and 0 <= round(away, 4) <= round(bound, 4)
    return line, good and tracked == count


def accuracy(snapshots: list[Snapshot]) -> str:
    """The last of each run, as a page of metrics: GPU-hours reported, divided by the truth."""
    last = {each.run.partition(",")[0]: share(each.status, each.truth_then) for each in snapshots if each.truth_then}
    lines = [f'{ACCURACY}{{name="{run}",namespace="default"}} {ratio:.6f}' for run, ratio in last.items()]
    return "\n".join([f"# TYPE {ACCURACY} gauge", *lines, ""])


def write(folder: Path, title: str, knobs: dict[str, Any], snapshots: list[Snapshot], line: str) -> None:
    """SUMMARY.md and results.json, in a folder of today."""
    where = folder / f"{datetime.now(UTC):%Y-%m-%d}"
    where.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(each), "asof_error": each.asof_error, "scrape_error": each.scrape_error} for each in snapshots]
    document = {"knobs": knobs, "snapshots": rows, "line": line}
    (where / "results.json").write_text(json.dumps(document, indent=2) + "\n")
    lines = [f"# {title}", "", f"`{line}`", "", f"Knobs: {json.dumps(knobs)}", ""]
    lines += ["| run | at | tracked | reported | truth | error | unsure | age | by the pods still shown |"]
    lines += ["|---|---|---|---|---|---|---|---|---|"]
    lines += [
        f"| {each.run} | {each.at:.0f} s | {each.tracked} | {each.status:.6f} | {each.truth_then:.6f} "
        f"| {each.asof_error:+.2%} | {each.uncertain:.6f} | {each.stale_s:.1f} s | {each.recount_error:+.2%} |"
        for each in snapshots
    ]
    (where / "SUMMARY.md").write_text("\n".join(lines) + "\n")
    (where / "metrics.prom").write_text(accuracy(snapshots))
    print(f"written: {where / 'SUMMARY.md'}, {where / 'results.json'}")
