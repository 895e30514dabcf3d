"""Placeholder values of the right format, to check a template without real secrets."""

from tgp.core.joining.talos.plan import NodePlan
from tgp.core.model.join import JoinValues
from tgp.core.model.mesh import Backend, KubeSpanJoin, MeshJoin, NoMesh, TailscaleJoin, TunnelJoin
from tgp.core.model.secret import Secret
from tgp.core.model.talos import TalosVersion

# Two certificates whose keys were not kept.
_MACHINE_CA = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSGpNSUdXb0FNQ0FRSUNBUUV3QlFZREsyVndNQkF4RGpBTUJnTlZCQW9NQlhSaGJHOXpNQ0"
    "FYRFRJMk1ERXcKTVRBd01EQXdNRm9ZRHpJd09Ua3dNVEF4TURBd01EQXdXakFRTVE0d0RBWURWUVFLREFWMFlXeHZjekFxTUFVRwpBeXRsY0FN"
    "aEFPWTFZeG8xN1V4WFZnWXd5Wkp5QlNGNEEzb21kRlJNQnFYSUFIaGFPU3Nwb3hNd0VUQVBCZ05WCkhSTUJBZjhFQlRBREFRSC9NQVVHQXl0bG"
    "NBTkJBT0FaSjlteGNFS251TWlUMC92MWVpeWpORWxGQU9NdWxlaXYKUVhsMkZocmxySmhMNmR3N1AwY2JzN0NpTkFBVWdpYVVxdWdyNkdVSDQ0"
    "bTlXWHNnaXdVPQotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg=="
)
_CLUSTER_CA = (
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCk1JSHRNSUdnb0FNQ0FRSUNBUUV3QlFZREsyVndNQlV4RXpBUkJnTlZCQW9NQ210MVltVnlibV"
    "YwWlhNd0lCY04KTWpZd01UQXhNREF3TURBd1doZ1BNakE1T1RBeE1ERXdNREF3TURCYU1CVXhFekFSQmdOVkJBb01DbXQxWW1WeQpibVYwWlhN"
    "d0tqQUZCZ01yWlhBRElRQUdabS9xL05QTnVOcUFQTzltVEd1NG0yNTBiWmFzL09NZVhTUmE5Z3Y0CnhLTVRNQkV3RHdZRFZSMFRBUUgvQkFVd0"
    "F3RUIvekFGQmdNclpYQURRUUIwQjlaUnJKbEU0NnhGWmlKaTF5RlUKSUt5ZG9Oait6MjVDWjZReDdmdElObTFETzcrUFc2TUx3ZEg0SHpwRWRS"
    "L0phdzBJREFZOEtjWDlMT3lKZys0QwotLS0tLUVORCBDRVJUSUZJQ0FURS0tLS0tCg=="
)
_KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
_KUBERNETES_AHEAD = 23  # Talos 1.10 came with Kubernetes 1.33, and so on


def placeholder_join() -> JoinValues:
    return JoinValues(
        machine_token=Secret("inert0.inert00inert0000"),
        machine_ca=_MACHINE_CA,
        cluster_ca=_CLUSTER_CA,
        cluster_id=Secret(_KEY),
        cluster_secret=Secret(_KEY),
        endpoint="https://192.0.2.1:6443",
        cluster_name="inert",
    )


def placeholder_mesh(backend: Backend) -> MeshJoin:
    match backend:
        case Backend.TAILSCALE:
            return TailscaleJoin(Secret("inert-key"), "inert")
        case Backend.HEADSCALE:
            return TailscaleJoin(Secret("inert-key"), "inert", login_server="https://headscale.example.org")
        case Backend.WIREGUARD:
            return TunnelJoin(Secret(_KEY), "10.8.0.2/24", _KEY, "192.0.2.1:51820", ("10.8.0.0/24",))
        case Backend.KUBESPAN:
            return KubeSpanJoin()
        case Backend.NONE:
            return NoMesh()


def placeholder_plan(
    version: TalosVersion, backend: Backend, *, nvidia: bool = True, kubelet_image: str = ""
) -> NodePlan:
    return NodePlan(
        version=version,
        node_name="inert",
        provider_id="tgp://inert/inert",
        kubelet_image=kubelet_image or f"ghcr.io/siderolabs/kubelet:v1.{version.minor + _KUBERNETES_AHEAD}.0",
        bootstrap_token=Secret("inert0.inert00inert0000"),
        mesh=placeholder_mesh(backend),
        nvidia=nvidia,
        installer=f"factory.talos.dev/metal-installer/{'0' * 64}:{version}",
        pool="inert",
    )
