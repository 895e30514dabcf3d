"""One number for money: every place that tells what was spent tells the same at the same instant."""

import msgspec

from tests.sim.lives.an_estate import lives
from tests.sim.lives.reference import QUICK
from tests.sim.mutants.histories import begin, is_ready
from tgp.adapters.telemetry.requests import RequestCollector
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS
from tgp.app.view.purse import purse_of
from tgp.core.model.key import Key
from tgp.core.model.record import pack_uid
from tgp.core.model.typed import Typed
from tgp.core.rules import bills
from tgp.core.rules.costs import CENT, cents, read_amount
from tgp.surfaces.cli.story import story_of


def test_every_place_tells_the_same_at_the_same_instant():
    """A machine that has run for hours, one that is gone, and one that was rented a moment ago."""
    with lives("one-number", kubelets=QUICK) as stage:
        begin(stage)
        stage.wants("long", idleTimeout="Never")
        stage.wants("gone", maxLifetime="1h", idleTimeout="Never")
        stage.until(is_ready(stage, "long"), minutes=20)
        stage.until(lambda: stage.phase("gone") == "Finished", minutes=120)
        stage.world.run(hours=3)
        stage.wants("new", idleTimeout="Never")
        stage.until(is_ready(stage, "new"), minutes=20)
        stage.world.run(minutes=7)

        now = stage.world.clock.now()
        records = [_typed(stage.request(name)) for name in ("gone", "long", "new")]
        found = bills.costs((), records, now)
        views = {
            "terminal": [_purse(record, now) for record in records],
            "why": [_story(record, now) for record in records],
            "cost": [bills.total((cost,), bills.Window()).microusd for cost in sorted(found, key=_name)],
        }
        for told in views.values():
            assert [cents(amount) for amount in told] == [cents(amount) for amount in views["cost"]], views

        everything = sum(views["cost"])
        node_class = stage.world.api.backstage.get(GPU_NODE_CLASS, "", "rented")
        assert abs(_purse(_typed_class(node_class), now) - everything) <= CENT, (views, node_class["status"])
        assert abs(_metric(records, now) - everything) <= CENT
        billed = sum(machine.cost_microusd(now) for machine in stage.shop.fleet.machines.values())
        assert abs(billed - everything) <= everything // 100, "what the provider bills is another matter"

        for record in records:  # the column of kubectl: as of the last write
            assert record.object is not None
            status = record.object.status
            assert status.spent_as_of is not None
            assert status.spent is not None
            at_that_moment = msgspec.structs.replace(status, spent=None)
            assert status.spent == cents(_story(record, status.spent_as_of, at_that_moment))
            assert len(status.spent.partition(".")[2]) == 2


def _name(cost: bills.Cost) -> str:
    return cost.entry.request


def _typed(obj) -> Typed[GPURequest]:
    meta = obj["metadata"]
    return Typed(
        key=Key(meta["namespace"], meta["name"]),
        uid=pack_uid(meta["uid"]),
        annotations=meta.get("annotations", {}),
        object=msgspec.convert(obj, GPURequest, strict=False),
        status_document=msgspec.json.encode(obj["status"]),
    )


def _typed_class(obj) -> Typed[GPUNodeClass]:
    assert read_amount(obj["status"]["totalCost"]) is not None
    return Typed(key=Key("", "rented"), object=msgspec.convert(obj, GPUNodeClass, strict=False))


def _purse(record, now) -> int:
    purse = purse_of(record, now)
    assert purse is not None
    return purse.spent_microusd


def _story(record: Typed[GPURequest], now, status=None) -> int:
    assert record.object is not None
    request = record.object if status is None else msgspec.structs.replace(record.object, status=status)
    return story_of(request, now).spent_microusd


def _metric(records, now) -> int:
    collector = RequestCollector(lambda: records, lambda _name: None, lambda _name: (), lambda: now)
    (family,) = [each for each in collector.collect() if each.name == "tgp_spent_dollars"]
    return round(sum(sample.value for sample in family.samples) * 1_000_000)
