"""Checks whether a rented machine becomes a worker of its cluster with this machine config. Findings by line.

Three kinds of findings: what Talos's loader refuses, what its validator refuses, and what would show only after the
machine was paid for. Values are never quoted: they may be secrets.
"""

from itertools import chain

from tgp.core.joining.talos import (
    checks_documents,
    checks_expected,
    checks_join,
    checks_links,
    checks_loader,
    checks_machine,
    checks_network,
    checks_node,
    checks_storage,
)
from tgp.core.joining.talos.document_view import Check, Config, ConfigDocument, NodeExpectations, as_text
from tgp.core.joining.talos.keys import CLASSIC_KIND
from tgp.core.joining.talos.stream import Document, UnreadableStream, read_stream
from tgp.core.model.machine_config import ConfigFinding
from tgp.core.model.talos import TalosVersion

__all__ = ["CHECKS", "NodeExpectations", "check", "pages_of"]

CHECKS: tuple[Check, ...] = (
    checks_loader.check_kinds,
    checks_loader.check_once,
    checks_loader.check_keys,
    checks_loader.check_young_keys,
    checks_join.check_sections,
    checks_join.check_type,
    checks_join.check_persist,
    checks_join.check_certificates,
    checks_join.check_tokens,
    checks_join.check_endpoint,
    checks_join.check_cluster_network,
    checks_join.check_discovery,
    checks_join.check_control_plane_only,
    checks_node.check_labels,
    checks_node.check_annotations,
    checks_node.check_taints,
    checks_node.check_kubelet,
    checks_node.check_kubelet_image,
    checks_machine.check_files,
    checks_machine.check_features,
    checks_machine.check_install,
    checks_machine.check_disks,
    checks_machine.check_logging,
    checks_machine.check_registries,
    checks_machine.check_runtime_spec,
    checks_network.check_interfaces,
    checks_network.check_members,
    checks_network.check_tunnel_documents,
    checks_network.check_kubespan,
    checks_documents.check_extension_services,
    checks_documents.check_hostname,
    checks_documents.check_addresses,
    checks_documents.check_rules,
    checks_documents.check_runtime,
    checks_documents.check_images,
    checks_storage.check_volumes,
    checks_storage.check_swap,
    checks_storage.check_lvm,
    checks_links.check_bonds,
    checks_links.check_vlans,
    checks_links.check_named,
    checks_links.check_aliases,
    checks_links.check_routing_rules,
    checks_links.check_probes,
    checks_links.check_name_servers,
    checks_links.check_cluster_network,
    checks_documents.check_discovery_service,
    checks_documents.check_parameters,
    checks_documents.check_resolvers,
    checks_expected.check_placeholders,
    checks_expected.check_size,
    checks_expected.check_identity,
    checks_expected.check_node_address,
    checks_expected.check_tailscale,
    checks_expected.check_nvidia,
    checks_expected.check_installer,
)


def check(
    text: str,
    version: TalosVersion,
    *,
    expects: NodeExpectations | None = None,
    read: tuple[Document, ...] | None = None,  # what `text` reads as; None: it was not read yet
) -> tuple[ConfigFinding, ...]:
    """All findings, in the order of the lines; empty: the config is valid."""
    if not version.supported:
        return (ConfigFinding(0, "", f"is for Talos {version}, which this version of tgp does not know"),)
    try:
        pages = pages_of(text) if read is None else _pages(read)
    except UnreadableStream as error:
        return (error.finding,)
    if not pages:
        return (ConfigFinding(0, "", "is empty"),)
    config = Config(text, version, expects or NodeExpectations(), pages)
    return tuple(sorted(set(chain.from_iterable(one(config) for one in CHECKS))))


def pages_of(text: str) -> tuple[ConfigDocument, ...]:
    """Its documents, without empty ones. Raises UnreadableStream."""
    return _pages(read_stream(text))


def _pages(documents: tuple[Document, ...]) -> tuple[ConfigDocument, ...]:
    return tuple(_page(document) for document in documents if document.data is not None)


def _page(document: Document) -> ConfigDocument:
    data = document.data if isinstance(document.data, dict) else {}
    kind, name = as_text(data.get("kind")), as_text(data.get("name"))
    if not kind:
        return ConfigDocument(CLASSIC_KIND, "", document)
    return ConfigDocument(kind, name, document, f"{kind}/{name}" if name else kind)
