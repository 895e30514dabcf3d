"""What `tgp check` can say of the cluster a kubeconfig points at. It only reads."""

from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.list import Subject, paged
from tgp.adapters.kube.records.kinds import daemon_sets
from tgp.app.connect import connect
from tgp.core.rules.device_plugin import FutureNode, plugin_for
from tgp.ports.cluster import ClusterError
from tgp.ports.http import HttpError
from tgp.surfaces.cli.check_view import Finding

# What every rented node has, whatever pool wants it.
USUAL_LABELS = {
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "nvidia.com/gpu.present": "true",
    "tgp.io/provisioned": "true",
}
DEVICE_PLUGIN = "GPU device plugin"


async def cluster_findings(kubeconfig: str, context: str, *, expected: bool) -> tuple[Finding, ...]:
    """Nothing where no cluster is configured, unless somebody named one."""
    try:
        async with connect(kubeconfig, context) as connection:
            listed = await paged(connection.http, Subject(daemon_sets()), {})
    except ConfigInvalid as error:
        return (Finding("cluster", False, str(error)),) if expected else ()
    except (ClusterError, HttpError) as error:
        return (Finding("cluster", None if not expected else False, f"cannot be read: {error}"),)
    verdict = plugin_for(FutureNode(USUAL_LABELS), listed.records.values())
    return (Finding(DEVICE_PLUGIN, verdict.runs, verdict.message),)
