"""One number for money: every place that tells what was spent tells the same at the same instant."""

import re
from collections.abc import Iterable
from datetime import datetime

import msgspec

from tests.sim.lifecycle.a_world import sim_env
from tests.sim.lifecycle.reference import QUICK
from tests.sim.mutants.a_history import begin, is_ready
from tgp.adapters.telemetry.requests import RequestCollector
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS
from tgp.app.view.gatherer import cost_row_of
from tgp.core.model.costs import read_amount
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.money import CENT, cents
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import pack_uid
from tgp.core.reports import cost_report
from tgp.core.reports.request_timeline import RequestTimeline, timeline_of
from tgp.interfaces.cli.cost_view import money_cell
from tgp.interfaces.cli.status_view import columns
from tgp.interfaces.cli.watch_view import money_words
from tgp.interfaces.cli.why_view import cost_words
from tgp.interfaces.terminal.screen import cost_cells
from tgp.services.documents.requests import StatusRow

NAMES = ("brief", "gone", "long", "new")


def test_every_place_tells_the_same_at_the_same_instant():
    """Of a machine that has run for hours, one that is gone, and two that are new; numbers, and what is printed."""
    with sim_env("one-number", kubelets=QUICK) as env:
        begin(env)
        env.wants("long", idleTimeout="Never")
        env.wants("gone", maxLifetime="1h", idleTimeout="Never")
        env.until(is_ready(env, "long"), minutes=20)
        env.until(lambda: env.phase("gone") == "Finished", minutes=120)
        env.world.run(hours=1)
        env.wants("new", idleTimeout="Never")
        env.until(is_ready(env, "new"), minutes=20)
        env.world.run(minutes=7)
        env.wants("brief", idleTimeout="Never")
        env.until(lambda: any("launchedAt" in row for row in env.attempts("brief")), minutes=20, step=1.0)
        env.world.run(minutes=1)

        now = env.world.clock.now()
        records = [_typed(env.request(name)) for name in NAMES]
        found = cost_report.costs((), records, now)
        views = {
            "terminal": [_purse(record, now) for record in records],
            "why": [_spent(record, now) for record in records],
            "cost": [cost_report.total((cost,), cost_report.Window()).microusd for cost in sorted(found, key=_name)],
        }
        for told in views.values():
            assert [cents(amount) for amount in told] == [cents(amount) for amount in views["cost"]], views

        assert 0 < views["cost"][0] < CENT, "one of them has cost less than a cent"
        printed = {
            "kubectl": [f"${cents(amount)}" for amount in views["cost"]],  # as it is written at this instant
            "terminal": [_on_screen(record, now) for record in records],
            "why": [_in_why(record, now) for record in records],
            "watch": [money_words(_timeline(record, now)) for record in records],
            "status": _in_status(records, now),
            "cost": _in_cost(found),
        }
        for place, texts in printed.items():
            sums = [re.findall(r"[$]([0-9,.]+)", text)[-1] for text in texts]
            assert sums == [cents(amount) for amount in views["cost"]], (place, texts)

        everything = sum(views["cost"])
        node_class = env.world.api.local_api.get(GPU_NODE_CLASS, "", "rented")
        assert abs(_purse(_typed_class(node_class), now) - everything) <= CENT, (views, node_class["status"])
        assert abs(_metric(records, now) - everything) <= CENT
        billed = sum(machine.cost_microusd(now) for machine in env.simulator.fleet.machines.values())
        assert abs(billed - everything) <= everything // 100, "what the provider bills is another matter"

        for record in records:  # the column of kubectl: as of the last write
            assert record.value is not None
            status = record.value.status
            assert status.spent_as_of is not None
            assert status.spent is not None
            at_that_moment = msgspec.structs.replace(status, spent=None)
            assert status.spent == cents(_spent(record, status.spent_as_of, at_that_moment))
            assert len(status.spent.partition(".")[2]) == 2


def _timeline(record: KubeObject[GPURequest], now: datetime) -> RequestTimeline:
    assert record.value is not None
    return timeline_of(record.value, now)


def _on_screen(record: KubeObject[GPURequest], now: datetime) -> str:
    return " ".join(text.plain for text in cost_cells(cost_row_of(record, now)))


def _in_why(record: KubeObject[GPURequest], now: datetime) -> str:
    return cost_words(_timeline(record, now))


def _in_status(records: list[KubeObject[GPURequest]], now: datetime) -> list[str]:
    rows = [StatusRow(_timeline(record, now), "", "", None) for record in records]
    (spent,) = [column for column in columns(rows, now, 200) if column.head == "SPENT"]
    return [text for text, _ in spent.cells]


def _in_cost(found: Iterable[cost_report.Cost]) -> list[str]:
    bills = [cost_report.total((cost,), cost_report.Window()) for cost in sorted(found, key=_name)]
    return [f"${money_cell(bill.microusd, bill)[0]}" for bill in bills]


def _name(cost: cost_report.Cost) -> str:
    return cost.entry.request


def _typed(obj) -> KubeObject[GPURequest]:
    meta = obj["metadata"]
    return KubeObject(
        key=ObjectKey(meta["namespace"], meta["name"]),
        uid=pack_uid(meta["uid"]),
        annotations=meta.get("annotations", {}),
        value=msgspec.convert(obj, GPURequest, strict=False),
        status_document=msgspec.json.encode(obj["status"]),
    )


def _typed_class(obj) -> KubeObject[GPUNodeClass]:
    assert read_amount(obj["status"]["totalCost"]) is not None
    return KubeObject(key=ObjectKey("", "rented"), value=msgspec.convert(obj, GPUNodeClass, strict=False))


def _purse(record, now) -> int:
    purse = cost_row_of(record, now)
    assert purse is not None
    return purse.spent_microusd


def _spent(record: KubeObject[GPURequest], now, status=None) -> int:
    assert record.value is not None
    request = record.value if status is None else msgspec.structs.replace(record.value, status=status)
    return timeline_of(request, now).spent_microusd


def _metric(records, now) -> int:
    collector = RequestCollector(lambda: records, lambda _name: None, lambda _name: (), lambda: now)
    (family,) = [each for each in collector.collect() if each.name == "tgp_spent_dollars"]
    return round(sum(sample.value for sample in family.samples) * 1_000_000)
