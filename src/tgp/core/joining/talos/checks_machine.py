"""The rest of the machine section: files, features, installation, disks, logs, registries."""

from collections.abc import Iterator
from posixpath import normpath

from tgp.core.joining.talos.document_view import Config, ConfigDocument, as_text
from tgp.core.joining.talos.stream import Path
from tgp.core.model.machine_config import ConfigFinding

CRI_PART = "/etc/cri/conf.d/20-customization.part"
MANIFESTS = "/etc/kubernetes/manifests"
HOST_DNS_TOGETHER_SINCE = 13  # of 1.x: forwarding without host DNS is refused from there on
_ENCRYPTED = ("ephemeral", "state")
_KEY_SOURCES = ("static", "nodeID", "kms", "tpm")


def check_files(config: Config) -> Iterator[ConfigFinding]:
    """Talos does not validate these. A file that it cannot write stops the boot, before the machine can be reached."""
    page = config.classic
    if page is None:
        return
    for index, file in enumerate(page.items("machine", "files")):
        path = ("machine", "files", index)
        if not isinstance(file, dict):
            yield page.error(path, "is empty: a file needs a path, an op and a content")
            continue
        yield from _file(page, path, as_text(file.get("path")), as_text(file.get("op")))


def _file(page: ConfigDocument, path: Path, where: str, op: str) -> Iterator[ConfigFinding]:
    if op not in {"create", "append", "overwrite"}:
        yield page.error((*path, "op"), "must be create, append or overwrite")
    if not where.startswith("/"):
        yield page.error((*path, "path"), "must be an absolute path")
        return
    place = normpath(where)
    if place == CRI_PART or _within(place, MANIFESTS) or _within(place, "/var"):
        return
    if _within(place, "/etc/cri/conf.d"):
        yield page.error((*path, "path"), f"is not merged by Talos and stops the boot: write {CRI_PART}")
    elif op == "create":
        yield page.error(
            (*path, "path"), "is outside /var, where Talos cannot create files: the machine would not boot"
        )
    elif op in {"append", "overwrite"}:
        yield page.warning((*path, "path"), "is outside /var: this works only if the image already has this file")


def _within(place: str, directory: str) -> bool:
    return place.startswith(f"{directory}/")


def check_features(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    features = ("machine", "features")
    host_dns = page.truth(*features, "hostDNS", "enabled")
    forwards = page.truth(*features, "hostDNS", "forwardKubeDNSToHost")
    if forwards and not host_dns and config.version.minor >= HOST_DNS_TOGETHER_SINCE:
        yield page.error((*features, "hostDNS", "enabled"), "must be true if forwardKubeDNSToHost is")
    if page.text(*features, "nodeAddressSortAlgorithm") not in {"", "v1", "v2"}:
        yield page.error((*features, "nodeAddressSortAlgorithm"), "must be v1 or v2")


def check_runtime_spec(config: Config) -> Iterator[ConfigFinding]:
    page, path = config.classic, ("machine", "baseRuntimeSpecOverrides")
    if page is not None and page.section(*path):
        yield page.unchecked(path, "is an OCI runtime specification, which tgp does not check")


def check_install(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    path = ("machine", "install", "extensions")
    if page.items(*path):
        yield page.error(path, "no longer installs extensions: list them in talosConfig.extensions")


def check_disks(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    for index, disk in enumerate(page.items("machine", "disks")):
        if disk is None:
            yield page.error(("machine", "disks", index), "is empty")
        partitions = page.items("machine", "disks", index, "partitions")
        for number, partition in enumerate(partitions[:-1]):
            if isinstance(partition, dict) and as_text(partition.get("size")) in {"", "0"}:
                path = ("machine", "disks", index, "partitions", number)
                yield page.error(path, "takes the rest of the disk, but is not the last partition")
    for name in _ENCRYPTED:
        encryption = ("machine", "systemDiskEncryption", name)
        if page.at(*encryption) is not None:
            yield from _encryption(page, encryption)


def _encryption(page: ConfigDocument, path: Path) -> Iterator[ConfigFinding]:
    keys = page.items(*path, "keys")
    if not keys:
        yield page.error((*path, "keys"), "is missing: the encryption keys")
    slots: set[str] = set()
    for index, key in enumerate(keys):
        slot = as_text(key.get("slot")) or "0" if isinstance(key, dict) else "0"
        if slot in slots:
            yield page.error((*path, "keys", index, "slot"), "is already used by another key")
        slots.add(slot)
        if not isinstance(key, dict) or all(key.get(source) is None for source in _KEY_SOURCES):
            yield page.error((*path, "keys", index), f"has no source: one of {', '.join(_KEY_SOURCES)}")


def check_logging(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    for index in range(len(page.items("machine", "logging", "destinations"))):
        path = ("machine", "logging", "destinations", index)
        scheme, separator, rest = page.text(*path, "endpoint").partition("://")
        if scheme not in {"tcp", "udp"} or not separator or not rest.partition("/")[0]:
            yield page.error((*path, "endpoint"), "must be tcp://host:port or udp://host:port")
        if page.text(*path, "format") != "json_lines":
            yield page.error((*path, "format"), "must be json_lines")


def check_registries(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    for part in ("mirrors", "config"):
        for host, said in page.section("machine", "registries", part).items():
            if said is None:
                yield page.error(("machine", "registries", part, host), "is empty")
