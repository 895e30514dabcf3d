"""Which addresses of an API server rented machines can reach."""

import pytest

from tgp.core.joining.mesh.endpoint_reach import out_of_reach, unreachable
from tgp.core.model.mesh import Backend, MeshSettings, Ref, TunnelSettings

LAN = "https://192.168.7.10:6443"


@pytest.mark.parametrize(
    ("endpoint", "why"),
    [
        (LAN, "192.168.7.10 is a private address"),
        ("https://10.0.0.5:6443", "10.0.0.5 is a private address"),
        ("https://[fd00::1]:6443", "fd00::1 is a private address"),
        ("https://169.254.1.1:6443", "169.254.1.1 is a link-local address"),
        ("https://127.0.0.1:6443", "127.0.0.1 is the machine itself"),
        ("https://localhost:6443", "localhost is the machine itself"),
        ("https://100.101.102.103:6443", ""),
        ("https://[fd7a:115c:a1e0::1]:6443", ""),
        ("https://1.1.1.1:6443", ""),
        ("https://kube.example.com:6443", ""),
        ("https://[broken", ""),
    ],
)
def test_what_no_machine_elsewhere_reaches_by_itself(endpoint, why):
    assert out_of_reach(endpoint) == why


@pytest.mark.parametrize(
    ("mesh", "word"),
    [
        (MeshSettings(Backend.TAILSCALE), "in the tailnet"),
        (MeshSettings(Backend.HEADSCALE), "acceptRoutes"),
        (MeshSettings(Backend.TAILSCALE, accept_routes=True), ""),
        (MeshSettings(Backend.WIREGUARD, tunnel=TunnelSettings(allowed_ips=("10.9.0.0/24",))), "allowedIPs"),
        (MeshSettings(Backend.WIREGUARD, tunnel=TunnelSettings(allowed_ips=("192.168.0.0/16",))), ""),
        (MeshSettings(Backend.WIREGUARD, tunnel=TunnelSettings(allowed_ips=Ref("s", "k"))), ""),
        (MeshSettings(Backend.KUBESPAN), ""),
        (MeshSettings(Backend.NONE), ""),
    ],
    ids=str,
)
def test_a_private_endpoint_is_refused_where_the_mesh_carries_no_route_to_it(mesh, word):
    why = unreachable(LAN, mesh)

    assert word in why
    assert bool(why) == bool(word)
