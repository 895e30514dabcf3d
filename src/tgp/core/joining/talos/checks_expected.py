"""What only tgp can check: whether this config makes the expected node on the expected machine."""

import re
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from tgp.core.joining.talos import nvidia
from tgp.core.joining.talos.document_view import Config, ConfigDocument, as_text
from tgp.core.joining.talos.stream import Path
from tgp.core.joining.talos.template import texts
from tgp.core.model.machine_config import ConfigFinding
from tgp.core.model.mesh import Network

PLACEHOLDER = re.compile(r"\{\{\s*-?\s*\.?[A-Za-z][^{}\n]{0,80}\}\}")
TAILSCALE = "tailscale"
_STOCK_INSTALLER = "ghcr.io/siderolabs/installer"


def check_placeholders(config: Config) -> Iterator[ConfigFinding]:
    for page in () if config.expects.literal_braces else config.pages:
        for path, text in texts(page.document.data):
            if PLACEHOLDER.search(text):
                yield page.error(path, "has a {{…}} that was not replaced")


def check_size(config: Config) -> Iterator[ConfigFinding]:
    limit, size = config.expects.user_data_bytes, len(config.text.encode())
    if limit and size > limit:
        yield ConfigFinding(0, "", f"is {size} bytes long, and the provider accepts {limit}: make it shorter")


def check_identity(config: Config) -> Iterator[ConfigFinding]:
    """The node's name and provider id link it to its machine, for lookup and termination."""
    page = config.classic
    if page is None:
        return
    name, provider_id = config.expects.node_name, config.expects.provider_id
    old: Path = ("machine", "network", "hostname")
    named: list[tuple[ConfigDocument, Path, str]] = [(page, old, page.text(*old))]
    named += [(document, ("hostname",), document.text("hostname")) for document in config.of_kind("HostnameConfig")]
    if name and not any(said == name for _, _, said in named):
        yield page.error(old, f"must be {name}, in the format of this Talos release")
    for where, path, said in named:
        if name and said and said != name:
            yield where.error(path, f"must be {name}")
    said_id: Path = ("machine", "kubelet", "extraConfig", "providerID")
    if provider_id and page.text(*said_id) != provider_id:
        yield page.error(said_id, f"must be {provider_id}")


def check_node_address(config: Config) -> Iterator[ConfigFinding]:
    """The kubelet waits for an address in these networks, and so for the mesh."""
    page, ranges = config.classic, config.expects.ranges
    if page is None or not ranges:
        return
    path = ("machine", "kubelet", "nodeIP", "validSubnets")
    subnets = [as_text(subnet) for subnet in page.items(*path)]
    wanted = [network for text in subnets if not text.startswith("!") if (network := _network(text)) is not None]
    listed = ", ".join(str(each) for each in ranges)
    if not any(_overlap(network, each) for network in wanted for each in ranges):
        yield page.error(
            path, f"must contain the mesh's network ({listed}): otherwise the kubelet starts before the mesh"
        )
    for index, text in enumerate(subnets):
        network = None if text.startswith("!") else _network(text)
        if network is not None and not any(_overlap(network, each) for each in ranges):
            yield page.warning(
                (*path, index),
                f"is not in the mesh's network ({listed}): the node may get an address outside of the mesh",
            )


def _network(text: str) -> Network | None:
    try:
        return ip_network(text, strict=False)
    except ValueError:
        return None


def _overlap(one: Network, other: Network) -> bool:
    return one.version == other.version and one.overlaps(other)


def check_tailscale(config: Config) -> Iterator[ConfigFinding]:
    pages = [page for page in config.of_kind("ExtensionServiceConfig") if page.name == TAILSCALE]
    if config.expects.tailscale and not pages:
        yield ConfigFinding(
            0, "ExtensionServiceConfig", "named tailscale is missing: the extension does not start without it"
        )
    for page in pages:
        said = environment(page)
        if config.expects.tailscale and not said.get("TS_AUTHKEY") and not said.get("TS_CLIENT_ID"):
            yield page.error(("environment",), "has no TS_AUTHKEY: the node cannot join the tailnet")
        if said.get("TS_AUTHKEY") and said.get("TS_CLIENT_ID"):
            yield page.error(("environment",), "has both TS_AUTHKEY and TS_CLIENT_ID: keep TS_AUTHKEY")
        if config.expects.single_use and said.get("TS_AUTH_ONCE", "").lower() not in {"true", "1", "t"}:
            yield page.error(
                ("environment",),
                "needs TS_AUTH_ONCE=true: the key works once, and would otherwise be used at every start",
            )


def environment(page: ConfigDocument) -> dict[str, str]:
    lines = (as_text(line).partition("=") for line in page.items("environment"))
    return {name: value for name, _, value in lines}


def check_nvidia(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None or not config.expects.nvidia:
        return
    listed = {as_text(module.get("name")) for module in page.items("machine", "kernel", "modules") if _is_map(module)}
    listed |= {each.name for each in config.of_kind("KernelModuleConfig")}
    if missing := [module for module in nvidia.MODULES if module not in listed]:
        path = ("machine", "kernel", "modules")
        yield page.error(path, f"is missing {', '.join(missing)}: the driver's extension loads no module by itself")


def _is_map(value: Any) -> bool:
    return isinstance(value, dict)


def check_installer(config: Config) -> Iterator[ConfigFinding]:
    """The installer must contain the extensions that the machine was booted with, or they are lost after the
    install.
    """
    page, schematic = config.classic, config.expects.schematic
    if page is None:
        return
    path = ("machine", "install", "image")
    image = page.text(*path)
    if schematic and image and schematic not in image:
        yield page.error(path, f"must be the installer of schematic {schematic}: this one does not have its extensions")
    elif image.startswith(_STOCK_INSTALLER) and (config.expects.nvidia or config.expects.tailscale):
        yield page.error(path, "is the stock installer, which has no extensions: use the image factory's")
    tag = image.partition("@")[0].rpartition(":")[2]
    if image and re.match(r"v\d+\.\d+\.\d+", tag) and not tag.startswith(f"v1.{config.version.minor}."):
        yield page.warning(path, f"is of another release than the machine boots with, {config.version}")
