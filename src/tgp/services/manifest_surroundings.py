"""What `tgp check -f` compares manifests with, of a cluster: classes, Namespaces, version and the chart's settings."""

import re
from contextlib import suppress
from typing import Any

from tgp.adapters.kube.connect import Connection, connect
from tgp.adapters.kube.list import ListTarget, paged_when_ready
from tgp.adapters.kube.records.kinds import namespaces, typed
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.resource import GPU_NODE_CLASS
from tgp.api.values import Version
from tgp.core.reports.manifest_verdict import Surroundings
from tgp.ports.cluster import Forbidden
from tgp.services.chart_settings import chart_settings


async def surroundings(kubeconfig: str, context: str, namespace: str) -> Surroundings:
    """As far as the caller may read them. `namespace`: the operator's; empty: the usual one."""
    async with connect(kubeconfig, context) as connection:
        home = namespace or connection.namespace
        listed = await paged_when_ready(connection.http, ListTarget(typed(GPU_NODE_CLASS, GPUNodeClass)))
        records = list(listed.records.values())
        labels: dict[str, Any] = {}
        with suppress(Forbidden):
            found = await paged_when_ready(connection.http, ListTarget(namespaces()))
            labels = {each.key.name: each.labels for each in found.records.values()}
        return Surroundings(
            classes={each.key.name: each.value for each in records if each.value is not None},
            every_class=all(each.value is not None for each in records),
            namespaces=labels,
            server=_version(await connection.cluster.version()),
            operators=home,
            namespaces_required=await _required(connection, home),
        )


def _version(text: str) -> Version | None:
    found = re.match(r"v?([0-9]+)\.([0-9]+)\.([0-9]+)", text)
    return Version(int(found[1]), int(found[2]), int(found[3])) if found is not None else None


async def _required(connection: Connection, namespace: str) -> bool:
    """settings.requireAllowedNamespaces of the chart."""
    try:
        return (await chart_settings(connection.cluster, namespace)).allowed_namespaces_required
    except Forbidden:
        return False
