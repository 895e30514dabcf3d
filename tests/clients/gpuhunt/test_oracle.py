"""Our table of GPUs beside gpuhunt's, which other people keep. Where the two differ, a reason is written down."""

import json
import subprocess
import tomllib
from pathlib import Path

import pytest

from tgp.core.model.gpus import catalogue, family_members, find, get, plain
from tools.clients import client_environment

WITHIN_S = 60
LEAST_KNOWN = 60  # its table had 75 cards of the two makers: a run that compared none would prove nothing

NOT_OURS = {
    "MI100": "no provider of ours lists it",
    "MI250": "no provider of ours lists it",
    "MI250X": "no provider of ours lists it",
    "MI300A": "no provider of ours lists it",
    "MI308X": "made for one market, no provider of ours lists it",
    "MI350X": "no provider of ours lists it",
}
OTHER_MEMORY = {
    "MI325X": "AMD's data sheet and gpuhunt's own table of Vultr's machines say 256, its list of cards 288",
    "B300": "the box says 288; gpuhunt has the 270 that one provider reports, and ours takes that too",
    "GB300": "the same chip as the B300",
}
ARCHITECTURES = {
    (6, 0): "Pascal",
    (7, 0): "Volta",
    (7, 5): "Turing",
    (8, 0): "Ampere",
    (8, 6): "Ampere",
    (8, 9): "Ada Lovelace",
    (9, 0): "Hopper",
    (10, 0): "Blackwell",
    (12, 0): "Blackwell",
}
LAMBDA = {
    "A10 (24 GB PCIe)": "A10",
    "A100 (40 GB PCIe)": "A100-40GB-PCIE",
    "A100 (40 GB SXM4)": "A100-40GB-SXM",
    "A100 (80 GB SXM4)": "A100-80GB-SXM",
    "H100 (80 GB PCIe)": "H100-PCIE",
    "H100 (80 GB SXM5)": "H100-SXM",
    "B200 (180 GB SXM6)": "B200",
    "GH200 (96 GB)": "GH200",
    "RTX 6000 (24 GB)": "RTX6000",
    "A6000 (48 GB)": "A6000",
    "Tesla V100 (16 GB)": "V100-16GB",
}


@pytest.fixture(scope="module")
def oracle():
    python = client_environment("gpuhunt", "gpuhunt==0.1.34") / "bin" / "python"
    vast = [name for provider, name in _vendor_names() if provider == "vast"]
    asked = json.dumps({"vast": vast, "lambda": list(LAMBDA)})
    script = Path(__file__).with_name("tell.py")
    run = subprocess.run([python, script], input=asked, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def _vendor_names():
    text = (Path(__file__).parents[3] / "src/tgp/core/data/gpus.toml").read_text()
    return [(provider, name) for provider, names in tomllib.loads(text)["names"].items() for name in names]


def _ours(name: str, memory: int) -> list:
    return [get(model) for model in family_members(name) if get(model).has_memory(memory)]


def test_every_card_it_knows_is_known_here_with_the_same_memory(oracle):
    """And the list of differences holds nothing that has ceased to differ."""
    missing, other = set(), set()
    for card in oracle["known"]:
        name, memory = card["name"], card["memory"]
        if not family_members(name):
            missing.add(name)
        elif memory not in {get(model).memory_gib for model in family_members(name)}:
            other.add(name)

    assert len(oracle["known"]) >= LEAST_KNOWN
    assert missing == set(NOT_OURS)
    assert other == set(OTHER_MEMORY)


def test_makers_and_architectures_agree(oracle):
    compared = 0
    for card in oracle["known"]:
        for gpu in _ours(card["name"], card["memory"]):
            assert gpu.maker == card["vendor"], card
            if card["capability"] is not None:
                assert gpu.architecture == ARCHITECTURES[tuple(card["capability"])], card
                compared += 1

    assert compared >= LEAST_KNOWN


def test_vasts_names_mean_the_same_cards(oracle):
    """Both ways: by the names it would search for, and by reading the names in our table."""
    compared = 0
    for card in oracle["known"]:
        for vendor_name in card["vast"] if card["name"] not in OTHER_MEMORY else ():
            found = find(vendor_name, provider="vast", memory_gib=card["memory"])
            assert found is not None, (vendor_name, card["memory"])
            assert found.model in family_members(card["name"])
            assert found.memory_gib == card["memory"]
            compared += 1
    assert compared >= 50

    for vendor_name, theirs in oracle["vast"].items():
        meant = catalogue().names["vast", plain(vendor_name)]
        if family_members(theirs):  # it knows no more of some than the name with its blanks taken out
            assert set(meant) <= set(family_members(theirs)), (vendor_name, theirs)


def test_lambdas_descriptions_mean_the_same_cards(oracle):
    for description, model in LAMBDA.items():
        count, name, memory = oracle["lambda"][description]

        assert count == 1
        assert find(description, provider="lambdalabs").model == model
        assert model in family_members(name)
        assert get(model).memory_gib == memory


def test_reported_memory_is_corrected_alike(oracle):
    """What it takes for the card, we take too; what we take beyond that, a driver with ECC is known to report."""
    compared = 0
    for card in oracle["known"]:
        if card["name"] in NOT_OURS or card["name"] in OTHER_MEMORY:
            continue
        ours = [gpu for gpu in map(get, family_members(card["name"])) if gpu.memory_gib == card["memory"]]
        for share, corrected in card["corrected"].items():
            told = card["memory"] * int(share) / 100
            theirs = corrected == card["memory"] and abs(told - card["memory"]) < card["memory"] * 0.0699
            for gpu in ours:
                compared += 1
                assert gpu.has_memory(told) or not theirs, (gpu.model, told)
                assert theirs or not gpu.has_memory(told) or _by_ecc(gpu, told) or int(share) in {93, 107}

    assert compared > 1_000


def _by_ecc(gpu, told: float) -> bool:
    return any(abs(told - each) <= each * 0.07 for each in gpu.reported_gib)
