"""Settings of the Node: labels, annotations, taints, and the kubelet that registers it."""

import re
from collections.abc import Iterator
from ipaddress import ip_interface

from tgp.core.joining.talos.document_view import Config, as_text
from tgp.core.joining.talos.generate import kubelet_may_set
from tgp.core.joining.talos.releases import SUPPORTS, newest_kubernetes
from tgp.core.model.machine_config import ConfigFinding

TAINTS_SINCE = 14  # of 1.x: earlier releases set them too late, when a kubelet may not any more
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NAME = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_DOMAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*\Z")
_RESERVED = tuple(f"talos.dev/owned-{what}" for what in ("annotations", "labels", "taints"))
_ANNOTATION_BYTES = 256 * 1024
_IMAGE_VERSION = re.compile(r":v(\d+)\.(\d+)\.(\d+)(?:[-+][0-9A-Za-z.+-]*)?(?:@.*)?\Z")
_IMAGE_BAD_TAG = "must end in the version, such as ghcr.io/siderolabs/kubelet:v1.33.1"
_KEPT_BY_TALOS = (  # settings of the kubelet that Talos sets itself
    "apiVersion",
    "authentication",
    "authorization",
    "cgroupRoot",
    "kind",
    "kubeletCgroups",
    "port",
    "protectKernelDefaults",
    "resolvConf",
    "rotateCertificates",
    "seccompDefault",
    "staticPodPath",
    "systemCgroups",
)


def name_problem(key: str) -> str | None:
    """Why it is not a qualified name: `domain/name`, or a name alone."""
    domain, slash, name = key.rpartition("/")
    if slash and (not _DOMAIN.match(domain) or len(domain) > 253):
        return "has an invalid domain before the slash: use at most 253 lower-case letters, digits, - and ."
    if not _NAME.match(name) or len(name) > 63:
        return "is not a valid name: use at most 63 letters, digits, -, _ and . with a letter or digit at both ends"
    return None


def value_problem(value: str) -> str | None:
    if len(value) > 63 or (value and not _NAME.match(value)):
        return "has an invalid value: use at most 63 letters, digits, -, _ and ."
    return None


def check_labels(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    for key, value in page.section("machine", "nodeLabels").items():
        path = ("machine", "nodeLabels", key)
        if why := name_problem(key) or value_problem(as_text(value)):
            yield page.error(path, why)
        elif not kubelet_may_set(key):
            yield page.error(
                path,
                "is in a domain that no kubelet may set: the whole list would be refused. Use a domain of your own",
            )


def check_annotations(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    annotations = page.section("machine", "nodeAnnotations")
    for key in annotations:
        if why := name_problem(key):
            yield page.error(("machine", "nodeAnnotations", key), why)
        elif key in _RESERVED:
            yield page.error(("machine", "nodeAnnotations", key), "is set by Talos itself")
    if sum(len(key.encode()) + len(as_text(value).encode()) for key, value in annotations.items()) > _ANNOTATION_BYTES:
        yield page.error(("machine", "nodeAnnotations"), "are larger than 256 KiB together")


def check_taints(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    taints = page.section("machine", "nodeTaints")
    for key, value in taints.items():
        given, colon, effect = as_text(value).partition(":")
        path = ("machine", "nodeTaints", key)
        if why := name_problem(key):
            yield page.error(path, why)
        elif (effect if colon else given) not in EFFECTS:
            yield page.error(path, f"must have one of the effects {', '.join(EFFECTS)}")
        elif colon and (why := value_problem(given)):
            yield page.error(path, why)
    if taints and config.version.minor < TAINTS_SINCE:
        yield page.error(
            ("machine", "nodeTaints"),
            f"fails on workers before Talos 1.{TAINTS_SINCE}, and the labels with it: "
            "write machine.kubelet.extraConfig.registerWithTaints",
        )


def check_kubelet(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    kubelet = ("machine", "kubelet")
    for key in page.section(*kubelet, "extraConfig"):
        if key in _KEPT_BY_TALOS:
            yield page.error((*kubelet, "extraConfig", key), "is set by Talos itself and cannot be overridden")
    for index, subnet in enumerate(page.items(*kubelet, "nodeIP", "validSubnets")):
        if not is_subnet_or_address(as_text(subnet).removeprefix("!")):
            path = (*kubelet, "nodeIP", "validSubnets", index)
            yield page.error(path, "is neither a network nor an address (a ! before it excludes)")
    for index, taint in enumerate(page.items(*kubelet, "extraConfig", "registerWithTaints")):
        path = (*kubelet, "extraConfig", "registerWithTaints", index)
        if not isinstance(taint, dict) or name_problem(as_text(taint.get("key"))) or taint.get("effect") not in EFFECTS:
            yield page.error(path, f"must have a key and an effect, one of {', '.join(EFFECTS)}")


def check_kubelet_image(config: Config) -> Iterator[ConfigFinding]:
    """Talos checks it only at run time and stops there: so tgp checks it before."""
    page = config.classic
    if page is None or not page.has("machine"):
        return
    path = ("machine", "kubelet", "image")
    image = page.text(*path)
    minor = config.version.minor
    newest = newest_kubernetes(config.version)
    if not image:
        yield page.warning(path, f"is missing: Talos would use Kubernetes 1.{newest}, whatever the cluster runs")
        return
    found = _IMAGE_VERSION.search(image)
    if found is None:
        yield page.error(path, _IMAGE_BAD_TAG)
        return
    version = tuple(int(part) for part in found.groups())
    if version[0] != 1 or not newest - SUPPORTS < version[1] <= newest:
        oldest = newest - SUPPORTS + 1
        yield page.error(path, f"is a release that Talos 1.{minor} does not support: use 1.{oldest} to 1.{newest}")
    if newer_than(version, config.expects.api_server):
        yield page.error(path, f"is newer than the API server, which is {config.expects.api_server}")


def newer_than(version: tuple[int, ...], api_server: str) -> bool:
    """By minor release: patch releases may differ either way."""
    found = re.match(r"v?(\d+)\.(\d+)", api_server)
    return found is not None and version[:2] > (int(found[1]), int(found[2]))


def is_subnet_or_address(text: str) -> bool:
    try:
        ip_interface(text)
    except ValueError:
        return False
    return True
