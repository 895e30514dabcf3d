"""Volumes of every kind, as Talos validates them: names, sizes, keys, and the selectors that choose their disks."""

import re
from collections.abc import Callable, Iterator

from tgp.core.joining.talos import expressions
from tgp.core.joining.talos.checks_loader import byte_size
from tgp.core.joining.talos.document_view import Config, ConfigDocument, as_text
from tgp.core.joining.talos.stream import Path
from tgp.core.model.machine_config import ConfigFinding

NEGATIVE_SINCE = 13  # of 1.x: -10GB, the space to keep free
BTRFS_SINCE = 14
STATE_SINCE = 11
MOUNT_SINCE = 14  # of the image cache: earlier releases do not check
_SYSTEM_VOLUMES = ("STATE", "EPHEMERAL", "IMAGECACHE")
_LEGACY_ENCRYPTION = {"STATE": "state", "EPHEMERAL": "ephemeral"}
_KEY_SOURCES = ("static", "nodeID", "kms", "tpm")
_NAME = re.compile(r"[A-Za-z0-9-]+\Z")
_LVM_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}\Z")
_NAME_MAX = 34  # with the prefix of its kind it is a partition's label
_SELECTOR: Path = ("provisioning", "diskSelector", "match")
_RESERVED_PCRS = range(24)


def check_volumes(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("VolumeConfig"):
        yield from _system_volume(config, page)
    for page in config.of_kind("UserVolumeConfig"):
        yield from _volume_name(page)
        yield from _user_volume(config, page)
        yield from _trim(page)
    for kind in ("RawVolumeConfig", "SwapVolumeConfig"):
        for page in config.of_kind(kind):
            yield from _volume_name(page)
            yield from _provisioning(config, page, needed=True)
            yield from _encryption(page)
    for page in config.of_kind("ExistingVolumeConfig"):
        if not _NAME.match(page.name):
            yield page.error(("name",), "must be letters, digits and hyphens")
        yield from check_expression(config, page, ("discovery", "volumeSelector", "match"), expressions.volume)
        yield from _trim(page)
    for page in config.of_kind("ExternalVolumeConfig"):
        yield from _volume_name(page)
        if page.text("filesystemType").lower() != "virtiofs":
            yield page.error(("filesystemType",), "must be virtiofs")
        if not page.text("mount", "virtiofs", "tag"):
            yield page.error(("mount", "virtiofs", "tag"), "is missing")


def check_swap(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("ZswapConfig"):
        percent = page.at("maxPoolPercent")
        if isinstance(percent, int | float) and not 0 <= int(percent) <= 100:
            yield page.error(("maxPoolPercent",), "must be 0 to 100")
    for page in config.of_kind("FilesystemTrimConfig"):
        if page.text("interval").startswith("-"):
            yield page.error(("interval",), "cannot be negative")


def check_lvm(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("LVMVolumeGroupConfig"):
        if not _LVM_NAME.match(page.name):
            yield page.error(("name",), "must be 1 to 63 letters, digits, hyphens and underscores")
        yield from check_expression(config, page, ("provisioning", "volumeSelector", "match"), expressions.volume)
    for page in config.of_kind("LVMLogicalVolumeConfig"):
        if not _LVM_NAME.match(page.name):
            yield page.error(("name",), "must be 1 to 63 letters, digits, hyphens and underscores")
        yield from _logical_volume(page)


def check_expression(
    config: Config,
    page: ConfigDocument,
    path: Path,
    environment: Callable[[int], expressions.CelEnvironment],
    *,
    needed: bool = True,
) -> Iterator[ConfigFinding]:
    """Of a CEL expression at that path: missing, refused by Talos, or not checked here."""
    text = page.text(*path)
    if not text:
        if needed:
            yield page.error(path, "is missing: a CEL expression that selects the disk, volume or link")
        return
    try:
        if not expressions.examine(text, environment(config.version.minor)):
            yield page.unchecked(path, "is a CEL expression that tgp cannot check in full")
    except expressions.Wrong as error:
        yield page.error(path, str(error))


def _system_volume(config: Config, page: ConfigDocument) -> Iterator[ConfigFinding]:
    names = _SYSTEM_VOLUMES if config.version.minor >= STATE_SINCE else _SYSTEM_VOLUMES[1:]
    if page.name not in names:
        yield page.error(("name",), f"must be one of {', '.join(names)}")
    state = page.name == "STATE"
    if state and page.section("provisioning"):
        yield page.error(("provisioning",), "cannot be set for the STATE volume")
    for index in range(len(page.items("encryption", "keys"))):
        if state and page.truth("encryption", "keys", index, "lockToState"):
            yield page.error(("encryption", "keys", index, "lockToState"), "cannot be set for the STATE volume")
    unmounted = ("STATE", "IMAGECACHE") if config.version.minor >= MOUNT_SINCE else ("STATE",)
    if page.name in unmounted and any(said is not None for said in page.section("mount").values()):
        yield page.error(("mount",), f"cannot be set for the {page.name} volume")
    yield from _provisioning(config, page, needed=False)
    yield from _encryption(page)
    yield from _trim(page)
    old, classic = _LEGACY_ENCRYPTION.get(page.name), config.classic
    twice = classic is not None and old and classic.at("machine", "systemDiskEncryption", old) is not None
    if twice and page.text("encryption", "provider") not in {"", "none"}:
        yield page.error(("encryption",), f"and machine.systemDiskEncryption.{old} are both set: keep this one")


def _user_volume(config: Config, page: ConfigDocument) -> Iterator[ConfigFinding]:
    kind = page.text("volumeType").lower() or "partition"
    if kind not in {"partition", "disk", "directory"}:
        yield page.error(("volumeType",), "must be partition, disk or directory")
    elif kind == "directory":
        if any(page.section(part) for part in ("provisioning", "encryption", "filesystem", "mount")):
            yield page.error(("volumeType",), "directory allows no provisioning, encryption, filesystem or mount")
    else:
        yield from _provisioning(config, page, needed=True, sized=kind == "partition")
        yield from _encryption(page)
        yield from _filesystem(config, page)


def _filesystem(config: Config, page: ConfigDocument) -> Iterator[ConfigFinding]:
    known = {"xfs", "ext4", *(["btrfs"] if config.version.minor >= BTRFS_SINCE else [])}
    said = page.text("filesystem", "type").lower()
    if said not in {"", "none", *known}:
        yield page.error(("filesystem", "type"), f"must be one of {', '.join(sorted(known))}")
    if page.truth("filesystem", "projectQuotaSupport") and said not in {"", "none", "xfs"}:
        yield page.error(("filesystem", "projectQuotaSupport"), "is valid with xfs only")


def _volume_name(page: ConfigDocument) -> Iterator[ConfigFinding]:
    if not _NAME.match(page.name) or len(page.name) > _NAME_MAX:
        yield page.error(("name",), f"must be 1 to {_NAME_MAX} letters, digits and hyphens")


def _provisioning(config: Config, page: ConfigDocument, *, needed: bool, sized: bool = True) -> Iterator[ConfigFinding]:
    yield from check_expression(config, page, _SELECTOR, expressions.disk, needed=needed)
    least, most = page.text("provisioning", "minSize"), page.text("provisioning", "maxSize")
    if not sized:
        if least or most or page.at("provisioning", "grow") is not None:
            yield page.error(("provisioning",), "of a whole disk allows no minSize, maxSize or grow")
        return
    if needed and not least and not most:
        yield page.error(("provisioning",), "must have a minSize, a maxSize, or both")
    if least.startswith("-"):
        yield page.error(("provisioning", "minSize"), "cannot be negative")
    if most.startswith("-") and config.version.minor < NEGATIVE_SINCE:
        yield page.error(("provisioning", "maxSize"), f"can be negative only since Talos 1.{NEGATIVE_SINCE}")
    yield from _between(page, least, most)


def _between(page: ConfigDocument, least: str, most: str) -> Iterator[ConfigFinding]:
    low, high = byte_size(least), byte_size(most)
    if low is not None and high is not None and low > high:
        yield page.error(("provisioning", "minSize"), "is greater than maxSize")


def _encryption(page: ConfigDocument) -> Iterator[ConfigFinding]:
    keys = page.items("encryption", "keys")
    provider = page.text("encryption", "provider").lower()
    if provider in {"", "none"} and not keys:
        return
    if provider != "luks2":
        yield page.error(("encryption", "provider"), "must be luks2")
    if not keys:
        yield page.error(("encryption", "keys"), "is missing: the encryption keys")
    slots: set[str] = set()
    for index, key in enumerate(keys):
        said = key if isinstance(key, dict) else {}
        slot = as_text(said.get("slot")) or "0"
        if slot in slots:
            yield page.error(("encryption", "keys", index, "slot"), "is already used by another key")
        slots.add(slot)
        if all(said.get(source) is None for source in _KEY_SOURCES):
            yield page.error(("encryption", "keys", index), f"has no source: one of {', '.join(_KEY_SOURCES)}")
        pcrs = ("encryption", "keys", index, "tpm", "options", "pcrs")
        for number, pcr in enumerate(page.items(*pcrs)):
            if isinstance(pcr, int | float) and int(pcr) not in _RESERVED_PCRS:
                yield page.error((*pcrs, number), "must be 0 to 23")


def _trim(page: ConfigDocument) -> Iterator[ConfigFinding]:
    if page.text("trim", "interval").startswith("-"):
        yield page.error(("trim", "interval"), "cannot be negative")


def _logical_volume(page: ConfigDocument) -> Iterator[ConfigFinding]:
    layout = page.text("type").lower() or "linear"
    for key, layouts, least in (("mirrors", ("raid1", "raid10"), 1), ("stripes", ("raid0", "raid10"), 2)):
        count = page.at(key)
        if count is None:
            continue
        if layout not in layouts:
            yield page.error((key,), f"is valid with type {' and '.join(layouts)} only")
        elif isinstance(count, int | float) and int(count) < least:
            yield page.error((key,), f"must be at least {least}")
    if not page.text("provisioning", "volumeGroup"):
        yield page.error(("provisioning", "volumeGroup"), "is missing")
    least_size, most = page.text("provisioning", "minSize"), page.text("provisioning", "maxSize")
    if not most:
        yield page.error(("provisioning", "maxSize"), "is missing")
    if most.startswith("-"):
        yield page.error(("provisioning", "maxSize"), "cannot be negative")
    yield from _between(page, least_size.removeprefix("-"), most)
