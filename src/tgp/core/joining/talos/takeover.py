"""Makes a machine with the vendor's Linux write Talos over its own disk: a cloud-config, or a script.

Both carry the same two things, packed: the program beside this file, and the beginning of a filesystem with the machine
config in it. They are unpacked below /run, which is memory: the config is not on disk before Talos is.
"""

import base64
import gzip
import re
from functools import cache
from pathlib import Path

import msgspec

from tgp.core.joining.talos import fat_volume
from tgp.core.model.boot_image import BootImage
from tgp.core.model.offer import ARCHITECTURES

PROGRAM = "takeover.sh"
HOME = "/run/tgp"
MARK = "# tgp takeover"
ADDRESS = re.compile(r"https?://[A-Za-z0-9._:/%-]{1,512}\Z")  # goes into a shell: no special characters
NETWORK = "version: 1\nconfig: []\n"  # nothing to add to DHCP; some releases fail on meta-data without it


class BadAddress(ValueError):
    """The image URL cannot be passed to a machine."""


def cloud_config(config: str, image: BootImage, node_name: str = "") -> bytes:
    """For cloud-init. Talos (nocloud) ignores user data that begins like this."""
    body = {
        "write_files": [
            _file(PROGRAM, "0700", program()),
            _file("cidata", "0600", _volume(config, node_name)),
        ],
        "runcmd": [["env", *_said(image), "sh", f"{HOME}/{PROGRAM}"]],
    }
    return b"#cloud-config\n" + msgspec.json.encode(body) + b"\n"  # JSON is YAML


def start_up_script(config: str, image: BootImage, node_name: str = "") -> bytes:
    """For a vendor agent that runs a script as it is, as root or as a user with sudo."""
    said = " ".join(_said(image))
    lines = (
        "#!/bin/sh",
        MARK,
        "set -eu",
        "umask 077",
        f'self=; if grep -qsx "{MARK}" "$0"; then self=$0; fi',
        'if [ "$(id -u)" != 0 ]; then exec sudo -n sh "$0"; fi',
        f"mkdir -p {HOME}",
        *_here(PROGRAM, program()),
        *_here("cidata", _volume(config, node_name)),
        f'exec env TGP_SELF="$self" {said} sh {HOME}/{PROGRAM}',
    )
    return "\n".join((*lines, "")).encode()


@cache
def program() -> bytes:
    """Without comments and indentation: a provider may accept little."""
    text = Path(__file__).with_name(PROGRAM).read_text(encoding="utf-8")
    first, *lines = (line.strip() for line in text.splitlines())
    return "\n".join((first, *(line for line in lines if line and not line.startswith("#")), "")).encode()


def _volume(config: str, node_name: str) -> bytes:
    name = node_name or "tgp"
    meta = f"instance-id: {name}\n" + (f"local-hostname: {name}\n" if node_name else "")
    return fat_volume.volume({"meta-data": meta, "network-config": NETWORK, "user-data": config})


def _said(image: BootImage) -> tuple[str, ...]:
    stem = image.raw_stem
    if not ADDRESS.match(stem):
        raise BadAddress("the factory's URL has characters with a meaning in a shell: check factory.url")
    assert image.arch in ARCHITECTURES, "no provider sells others"
    return f"TGP_IMAGE={stem}", f"TGP_ARCH={image.arch}"


def _file(name: str, permissions: str, content: bytes) -> dict[str, str]:
    packed = _packed(content)
    return {"path": f"{HOME}/{name}", "permissions": permissions, "encoding": "gz+b64", "content": packed}


def _here(name: str, content: bytes) -> tuple[str, ...]:
    return f"base64 -d <<'TGP' | gzip -dc >{HOME}/{name}", _packed(content), "TGP"


def _packed(content: bytes) -> str:
    return base64.b64encode(gzip.compress(content, 9, mtime=0)).decode()
