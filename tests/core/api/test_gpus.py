"""The table of GPU models."""

import pytest

from tgp.core.model.gpus import GPUS, known, members, memory_gib, nearest


@pytest.mark.parametrize(
    ("name", "models"),
    [
        ("RTX4090", ("RTX4090",)),
        ("rtx 4090", ("RTX4090",)),
        ("NVIDIA GeForce RTX 4090", ("RTX4090",)),
        ("RTX A6000", ("A6000",)),
        ("A100", ("A100-40GB-PCIE", "A100-40GB-SXM", "A100-80GB-PCIE", "A100-80GB-SXM")),
        ("A100-80GB", ("A100-80GB-PCIE", "A100-80GB-SXM")),
        ("NVIDIA A100-SXM4-80GB", ("A100-80GB-SXM",)),
        ("NVIDIA H100 80GB HBM3", ("H100-SXM",)),
        ("H200", ("H200-SXM", "H200-NVL")),
        ("L40S", ("L40S",)),
        ("nonsense", ()),
    ],
)
def test_a_name_accepts_its_model_or_its_family(name, models):
    assert members(name) == models
    assert known(name) is bool(models)


def test_cards_that_share_a_number_are_not_taken_for_each_other():
    """Paperspace's RTX4000 is a Turing card with 8 GB; the Ada card of that number has 20."""
    assert members("RTX4000") != members("RTX4000Ada")
    assert not set(members("L40")) & set(members("L40S"))


def test_every_model_has_memory_and_finds_itself():
    for gpu in GPUS:
        assert gpu.memory_gib > 0
        assert members(gpu.model) == (gpu.model,)
        assert memory_gib(gpu.model) == gpu.memory_gib
        for name in (*gpu.families, *gpu.aliases):
            assert gpu.model in members(name)


def test_a_slip_of_the_pen_finds_what_was_meant():
    assert nearest("RTX4900")[0] in {"RTX4090", "RTX4000"}
    assert "A100" in nearest("A1000")
    assert nearest("completely else") == ()
