"""The dated table: every entry makes sense, a class's prices win, and a mistake in it is named."""

import pytest

from tgp.adapters.clouds.paperspace import prices
from tgp.core.data.loading import BadTable, parse
from tgp.core.model.regions import region_of
from tgp.sim.clouds.paperspace.market import KINDS

HEAD = 'dated = 2026-09-20\nsources = ["somewhere"]\n'
ENTRY = """
[[machine]]
type = "A4000"
gpu = "A4000"
gpus = 1
vcpus = 8
memory_gib = 45
price = "0.76"
places = ["East Coast (NY2)"]
"""


def table(text: str) -> prices.PriceTable:
    return prices.read(parse("prices.toml", text))


def test_the_shipped_table_is_dated_and_every_place_in_it_is_known():
    shipped = prices.shipped()

    assert {each.priced_on for each in shipped.types} == {"2026-09-20"}
    assert len(shipped.types) > 20
    assert {region_of("paperspace", place) for each in shipped.types for place in each.places} == {
        "us-east",
        "us-west",
        "eu-west",
    }


def test_more_of_the_same_gpus_cost_no_less():
    """A slip of a digit in one entry shows among its siblings."""
    by_gpu: dict[str, list[prices.PaperspaceType]] = {}
    for each in prices.shipped().types:
        by_gpu.setdefault(each.gpu.model, []).append(each)
    for siblings in by_gpu.values():
        ordered = sorted(siblings, key=lambda each: each.gpus)
        single = ordered[0]
        assert [each.hourly_microusd for each in ordered] == [single.hourly_microusd * each.gpus for each in ordered]


def test_the_pretend_provider_bills_what_the_table_says():
    """Written down twice on purpose: a slip in one of them shows."""
    told = {each.name: each for each in prices.shipped().types}
    for kind in KINDS:
        each = told[kind.label]
        assert (each.gpu.model, each.gpus, each.vcpus, each.memory_gib) == (kind.model, kind.gpus, kind.cpus, kind.ram)
        assert each.hourly_microusd == round(kind.dollars * 1_000_000)
        assert sorted(each.places) == sorted(kind.places)


def test_a_class_overrides_single_prices():
    own = prices.overridden(prices.shipped(), {"A4000": "0.50"})

    assert {each.name: each.hourly_microusd for each in own.types}["A4000"] == 500_000
    assert {each.name: each.hourly_microusd for each in own.types}["A4000x2"] == 1_520_000
    assert {each.name: each.priced_on for each in own.types}["A4000"] == "", "the class's own has no date"
    assert {each.name: each.priced_on for each in own.types}["A4000x2"] == "2026-09-20"
    assert own.dropped == {}


def test_prices_of_no_use_are_counted():
    own = prices.overridden(prices.shipped(), {"Z9": "1.00", "A4000": "cheap", "A5000": "-1", "A6000": "NaN"})

    assert own.dropped == {"unknown machine type": 1, "bad price": 3}
    assert own.types == prices.shipped().types


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (ENTRY, "dated"),
        (HEAD, "must be a list of entries"),
        (HEAD + ENTRY + ENTRY, "is a duplicate"),
        (HEAD + ENTRY.replace('"0.76"', '"free"'), "price"),
        (HEAD + ENTRY.replace('"0.76"', "0.76"), "price must be a text"),
        (HEAD + ENTRY.replace('"0.76"', '"0"'), "price"),
        (HEAD + ENTRY.replace('gpu = "A4000"', 'gpu = "A9999"'), "one of our models"),
        (HEAD + ENTRY.replace('gpu = "A4000"', 'gpu = "A100"'), "one of our models"),
        (HEAD + ENTRY.replace("gpus = 1", "gpus = 0"), "gpus"),
        (HEAD + ENTRY.replace("vcpus = 8", "vcpus = true"), "vcpus"),
        (HEAD + ENTRY.replace("memory_gib = 45", "memory = 45"), "not a field"),
        (HEAD + ENTRY.replace('["East Coast (NY2)"]', "[]"), "has no region"),
        (HEAD + ENTRY + 'nvlink = "yes"\n', "nvlink"),
        (HEAD + ENTRY + "[extra]\n", "extra"),
    ],
)
def test_an_invalid_table_is_refused_with_the_entry(text: str, complaint: str):
    with pytest.raises(BadTable, match=complaint):
        table(text)
