"""Takeovers need root: a loop device is written over. Without it the tests fail unless they are deselected."""

import os

import pytest

from tools.toolbox.debian import programs

NEEDED = ("blkid", "curl", "losetup", "mtype", "sfdisk", "sgdisk", "xz", "zstd")


@pytest.fixture(scope="session", autouse=True)
def tools() -> None:
    if os.geteuid() != 0:
        pytest.fail("takeovers are tried on a loop device, which needs root; leave them out with -m 'not root'")
    programs(NEEDED)
