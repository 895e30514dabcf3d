"""The table of GPU models, and what providers mean by their names."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.core.model.gpus import (
    MEMORY_TOLERANCE,
    catalogue,
    completed,
    family_members,
    find,
    get,
    known,
    memory_gib,
    nearest,
    plain,
)


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
    assert family_members(name) == models
    assert known(name) is bool(models)


def test_cards_that_share_a_number_are_not_taken_for_each_other():
    """Paperspace's RTX4000 is a Turing card with 8 GB; the Ada card of that number has 20."""
    assert family_members("RTX4000") != family_members("RTX4000Ada")
    assert not set(family_members("L40")) & set(family_members("L40S"))


def test_every_model_has_memory_and_finds_itself():
    for gpu in catalogue().gpus.values():
        assert family_members(gpu.model) == (gpu.model,)
        assert memory_gib(gpu.model) == gpu.memory_gib > 0
        assert find(gpu.model) is get(gpu.model) is gpu
        for name in (*gpu.families, *gpu.aliases):
            assert gpu.model in family_members(name)


def test_a_slip_of_the_pen_finds_what_was_meant():
    assert nearest("RTX4900")[0] in {"RTX4090", "RTX4000"}
    assert "A100" in nearest("A1000")
    assert nearest("completely else") == ()


@pytest.mark.parametrize(
    ("provider", "name", "memory", "model"),
    [
        ("vast", "RTX 4090", 24564 / 1024, "RTX4090"),
        ("vast", "RTX 4090", 48, None),  # a modified card; it is not the one users ask for
        ("vast", "A100 SXM4", 40960 / 1024, "A100-40GB-SXM"),
        ("vast", "A100 SXM4", 81251 / 1024, "A100-80GB-SXM"),
        ("vast", "A100 SXM4", None, None),
        ("vast", "A100 PCIE", 80, "A100-80GB-PCIE"),
        ("vast", "A100 PCIE", 60, None),
        ("vast", "Q RTX 6000", 24, "RTX6000"),
        ("vast", "RTX 6000Ada", 48, "RTX6000Ada"),
        ("vast", "RTX PRO 6000 WS", 96, "RTXPRO6000"),
        ("vast", "RTX 4070S Ti", 16, "RTX4070TiSuper"),
        ("vast", "Tesla V100", 32, "V100-32GB"),
        ("vast", "Tesla T4", 15109 / 1024, "T4"),  # with ECC on
        ("vast", "A10", 22731 / 1024, "A10"),
        ("vast", "H200", 140, "H200-SXM"),
        ("runpod", "NVIDIA H100 80GB HBM3", 80, "H100-SXM"),
        ("runpod", "NVIDIA H100 PCIe", 80, "H100-PCIE"),
        ("runpod", "NVIDIA H100 NVL", 94, "H100-NVL"),
        ("runpod", "NVIDIA A100 80GB PCIe", 80, "A100-80GB-PCIE"),
        ("runpod", "NVIDIA RTX 6000 Ada Generation", 48, "RTX6000Ada"),
        ("runpod", "NVIDIA RTX PRO 6000 Blackwell Server Edition", 96, "RTXPRO6000"),
        ("runpod", "NVIDIA H200", 141, "H200-SXM"),
        ("runpod", "NVIDIA B300 SXM6 AC", 270, "B300"),
        ("runpod", "Tesla V100-FHHL-16GB", 16, "V100-16GB"),
        ("runpod", "AMD Instinct MI300X OAM", 192, "MI300X"),
        ("lambdalabs", "gpu_1x_a100", None, "A100-40GB-PCIE"),
        ("lambdalabs", "gpu_8x_a100", 40, "A100-40GB-SXM"),
        ("lambdalabs", "gpu_1x_a100_sxm4", 40, "A100-40GB-SXM"),
        ("lambdalabs", "gpu_8x_a100_80gb_sxm4", 80, "A100-80GB-SXM"),
        ("lambdalabs", "gpu_2x_h100_sxm5", 80, "H100-SXM"),
        ("lambdalabs", "gpu_1x_gh200", 96, "GH200"),
        ("lambdalabs", "gpu_1x_rtx6000", 24, "RTX6000"),
        ("lambdalabs", "gpu_8x_v100_n", 16, "V100-16GB"),
        ("lambdalabs", "gpu_4x_b200_sxm6", 180, "B200"),
        ("lambdalabs", "A10 (24 GB PCIe)", None, "A10"),
        ("paperspace", "RTX4000", 8, "RTX4000"),
        ("paperspace", "GPU+", None, "M4000"),
        ("paperspace", "A100", None, "A100-40GB-PCIE"),
        ("paperspace", "A100-80G", 80, "A100-80GB-SXM"),
        ("paperspace", "V100-32G", None, "V100-32GB"),
        ("vultr", "NVIDIA_A16", 16, "A16"),
        ("vultr", "NVIDIA_A100", 80, "A100-80GB-PCIE"),
        ("gcp", "nvidia-tesla-a100", None, "A100-40GB-SXM"),
        ("gcp", "nvidia-a100-80gb", None, "A100-80GB-SXM"),
        ("gcp", "nvidia-h100-mega-80gb", 80, "H100-SXM"),
        ("gcp", "nvidia-l4", 24, "L4"),
        ("gcp", "nvidia-tesla-t4", 16, "T4"),
        ("", "A100", 40, None),  # no provider: nothing is guessed
        ("vast", "", None, None),
        ("vast", "X" * 10_000, None, None),
    ],
)
def test_a_vendors_name_means_one_card_or_none(provider, name, memory, model):
    found = find(name, provider=provider, memory_gib=memory)

    assert (found and found.model) == model


@settings(deadline=None)  # a busy machine is no finding
@given(st.sampled_from(tuple(catalogue().gpus.values())), st.floats(0.5, 1.5))
def test_memory_is_taken_within_the_tolerance_and_no_further(gpu, share):
    """A provider that reports half a card sells half a card."""
    told = gpu.memory_gib * share
    near = any(abs(told - each) <= each * MEMORY_TOLERANCE for each in (gpu.memory_gib, *gpu.reported_gib))

    assert (find(gpu.model, memory_gib=told) is gpu) == near


@settings(deadline=None)  # a busy machine is no finding
@given(st.text(max_size=200), st.text(max_size=20), st.none() | st.floats())
def test_any_name_at_all_is_answered(name, provider, memory):
    found = find(name, provider=provider, memory_gib=memory)

    assert found is None or found.model in catalogue().gpus


def test_no_family_mixes_makers():
    """A family has only cards that one driver can run."""
    for gpu in catalogue().gpus.values():
        for family in gpu.families:
            assert {get(model).maker for model in family_members(family)} == {gpu.maker}
            assert plain(family) not in {plain(model) for model in catalogue().gpus}


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("4090", ("RTX4090",)),
        ("3090ti", ("RTX3090Ti",)),
        ("3090 Ti", ("RTX3090Ti",)),
        ("pro6000", ("RTXPRO6000",)),
        ("A100", ("A100",)),
        ("4000", ("A4000", "M4000", "P4000", "RTX4000", "RTXPRO4000")),
        ("90", ()),
        ("80gb", ()),
        ("ada", ()),
        ("", ()),
    ],
)
def test_the_end_of_a_name_is_enough_where_it_is_a_whole_number(typed, meant):
    assert completed(typed) == meant
