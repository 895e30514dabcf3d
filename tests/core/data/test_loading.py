"""Data files that make no sense are refused as a whole, and the refusal names the entry."""

from importlib import resources

import pytest

from tgp.core.data.loading import BadTable, parse
from tgp.core.model import gpus, regions

GPU = '\nmodel = "X1"\nmemory_gib = 8\nmaker = "nvidia"\narchitecture = "Turing"\nform = "pcie"\n'
GPUS = f'dated = 2026-11-15\nsources = ["a data sheet"]\n[[gpu]]{GPU}'
HEAD = 'dated = 2026-11-15\nsources = ["a map"]\nregions = ["us-west", "eu-west"]\n'
REGIONS = HEAD + '[countries]\nNL = "eu-west"\n'


def test_the_smallest_tables_are_read():
    """The refusals below are for what they say, and nothing else."""
    assert list(gpus.read(parse("gpus.toml", GPUS)).gpus) == ["X1"]
    assert regions.read(parse("regions.toml", REGIONS)).countries == {"NL": "eu-west"}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text.replace("dated = 2026-11-15", ""), "dated: must be the day"),
        (lambda text: text.replace("2026-11-15", '"2026-11-15"'), "dated: must be the day"),
        (lambda text: text.replace("2026-11-15", "2026-11-15T10:00:00Z"), "dated: must be the day"),
        (lambda text: text.replace("2026-11-15", "2006-11-15"), "dated: 2006-11-15 is before"),
        (lambda text: text.replace('["a data sheet"]', "[]"), "the file: names no source"),
        (lambda text: text + f"[[gpu]]{GPU}", "gpu X1: is listed twice"),
        (lambda text: text + "[[gpu]]" + GPU.replace("X1", "x-1"), "gpu x-1: x-1 is already a name of X1"),
        (lambda text: text + 'aliases = ["NVIDIA X1"]', "gpu X1: NVIDIA X1 is already a name of X1"),
        (lambda text: text + 'families = ["x1"]', "gpu X1: the family x1 is already a name"),
        (lambda text: text + 'families = ["F", "F"]', "gpu X1: families contains a value twice"),
        (lambda text: text + 'families = "F"', "gpu X1: families must be a list"),
        (lambda text: text + 'colour = "green"', "gpu X1: colour is not a field"),
        (lambda text: text.replace("memory_gib = 8", "memory_gib = 0"), "gpu X1: memory_gib must be"),
        (lambda text: text.replace("memory_gib = 8", "memory_gib = true"), "gpu X1: memory_gib must be"),
        (lambda text: text.replace("memory_gib = 8", 'memory_gib = "8"'), "gpu X1: memory_gib must be"),
        (lambda text: text + "reported_gib = [-1.0]", "gpu X1: reported_gib must be"),
        (lambda text: text.replace('"pcie"', '"round"'), "gpu X1: form must be one of"),
        (lambda text: text.replace('"nvidia"', '"acme"'), "gpu X1: maker must be one of"),
        (lambda text: text.replace('model = "X1"', ""), "gpu: model must be a text"),
        (lambda text: text + '[names.vast]\n"X" = ["X2"]', "names.vast X: X2 is not a model"),
        (lambda text: text + '[names.vast]\n"X" = []', "names.vast X: names no model"),
        (lambda text: text + '[names.vast]\n"X" = ["X1"]\n"x" = ["X1"]', "names.vast x: is listed twice"),
        (lambda text: text + '[names]\nvast = "X1"', "names.vast: must be a table"),
        (lambda text: text + "[trim]\nvast = '('", "trim vast: is not a valid pattern"),
        (lambda text: text + "[prices]", "the file: prices is not a field"),
        (lambda _: 'dated = 2026-11-15\nsources = ["a"]\n', "gpu: must be a list of entries"),
        (lambda text: text + "model again\n", "line 9"),
    ],
)
def test_a_broken_table_of_gpus_is_refused_by_name(change, told):
    with pytest.raises(BadTable) as refusal:
        gpus.read(parse("gpus.toml", change(GPUS)))

    assert str(refusal.value).startswith("gpus.toml: ")
    assert told in str(refusal.value)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text.replace('"eu-west"', '"mars"', 1), "countries NL: eu-west is not one of our regions"),
        (lambda text: text.replace("NL =", "Holland ="), "countries Holland: must be a code"),
        (lambda text: text.replace('"us-west", ', '"unknown", '), "regions: must have at least one region"),
        (lambda text: text.replace('["us-west", "eu-west"]', "[]"), "regions: must have at least one region"),
        (lambda text: text + '[states.us-west]\nWA = "Washington"\nWX = "washington"', "states.us-west WX: washington"),
        (lambda text: text + "[states.us-west]\nWA = 1", "states.us-west WA: WA must be a text"),
        (lambda text: text + '[states.mars]\nWA = "x"', "states.mars: mars is not one of our regions"),
        (lambda text: text + '[places.gcp]\nx = ["mars", "NL"]', "places.gcp x: mars is not one"),
        (lambda text: text + '[places.gcp]\nx = ["us-west"]', "places.gcp x: must be a region and a country"),
        (lambda text: text + '[places.gcp]\nx = ["us-west", "usa"]', "places.gcp x: usa is not a code"),
        (lambda text: text + '[places.gcp]\nx = ["us-west", ""]\nX = ["us-west", ""]', "places.gcp X: is listed twice"),
        (lambda text: text + "[trim]\ngcp = '['", "trim gcp: is not a valid pattern"),
        (lambda text: text + "[oceans]", "the file: oceans is not a field"),
    ],
)
def test_a_broken_table_of_regions_is_refused_by_name(change, told):
    with pytest.raises(BadTable) as refusal:
        regions.read(parse("regions.toml", change(REGIONS)))

    assert str(refusal.value).startswith("regions.toml: ")
    assert told in str(refusal.value)


@pytest.mark.parametrize("name", ["gpus.toml", "regions.toml"])
def test_the_shipped_tables_are_dated_and_name_their_sources(name):
    table = parse(name, resources.files("tgp.core.data").joinpath(name).read_text(encoding="utf-8"))

    assert table.sources
    assert table.dated.year >= 2026
