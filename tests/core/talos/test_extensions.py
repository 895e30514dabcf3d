"""Which extensions an image needs."""

import pytest

from tests.core.talos.a_plan import version
from tgp.core.joining.talos.extensions import wanted_extensions


@pytest.mark.parametrize(
    ("talos", "track"),
    [("v1.10.5", "production"), ("v1.11.5", "production"), ("v1.12.5", "lts"), ("v1.13.0", "lts"), ("v1.14.0", "lts")],
)
def test_driver_and_toolkit_are_of_one_track_chosen_by_release(talos, track):
    assert wanted_extensions(version(talos), tailscale=False, model="RTX4090") == (
        f"siderolabs/nvidia-container-toolkit-{track}",
        f"siderolabs/nvidia-open-gpu-kernel-modules-{track}",
    )


def test_the_mesh_and_the_class_add_theirs_once_and_in_order():
    wanted = wanted_extensions(
        version("v1.13.0"),
        tailscale=True,
        model="L4",
        own=("siderolabs/zfs", "siderolabs/tailscale", "siderolabs/gvisor"),
    )

    assert wanted == (
        "siderolabs/gvisor",
        "siderolabs/nvidia-container-toolkit-lts",
        "siderolabs/nvidia-open-gpu-kernel-modules-lts",
        "siderolabs/tailscale",
        "siderolabs/zfs",
    )


@pytest.mark.parametrize(
    ("model", "count", "fabric"),
    [("H100-SXM", 8, True), ("H100-SXM", 4, False), ("H100-PCIE", 8, False), ("RTX4090", 8, False)],
)
def test_boards_of_eight_need_the_fabric_manager(model, count, fabric):
    wanted = wanted_extensions(version("v1.13.0"), tailscale=False, model=model, count=count)

    assert ("siderolabs/nvidia-fabricmanager-lts" in wanted) is fabric


def test_cards_older_than_turing_need_the_closed_modules():
    wanted = wanted_extensions(version("v1.13.0"), tailscale=False, model="V100-16GB")

    assert "siderolabs/nonfree-kmod-nvidia-lts" in wanted
    assert "siderolabs/nvidia-open-gpu-kernel-modules-lts" not in wanted


def test_cards_of_another_maker_need_no_nvidia():
    assert wanted_extensions(version("v1.13.0"), tailscale=False, model="MI300X") == ("siderolabs/amdgpu",)


def test_no_gpu_needs_nothing():
    assert wanted_extensions(version("v1.13.0"), tailscale=False, count=0) == ()
