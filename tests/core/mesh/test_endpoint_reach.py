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
        ("https://0.0.0.0:6443", "0.0.0.0 is the machine itself"),
        ("https://[::]:6443", ":: is the machine itself"),
        ("https://[::ffff:127.0.0.1]:6443", "::ffff:127.0.0.1 is the machine itself"),
        ("https://[::ffff:192.168.1.5]:6443", "::ffff:192.168.1.5 is a private address"),
        ("https://[::ffff:100.64.0.5]:6443", ""),
        ("https://kubernetes.default.svc", "kubernetes.default.svc is a Service, which only pods of the cluster reach"),
        ("https://cp.kube.svc.cluster.local:6443", "cp.kube.svc.cluster.local is a Service, which only pods of the "),
        ("https://cp-1:6443", "cp-1 is a name without a domain"),
        ("https://cp-1.lan:6443", "cp-1.lan is a name of a local network (.lan)"),
        ("https://cp-1.local.:6443", "cp-1.local. is a name of a local network (.local)"),
        ("https://cp.c.project.internal:6443", "cp.c.project.internal is a name of a local network (.internal)"),
        ("https://cp.home.arpa:6443", "cp.home.arpa is a name of a local network (.home.arpa)"),
        ("https://cp-1.tailnet.ts.net:6443", ""),
        ("https://plan.example.com:6443", ""),
        ("https://100.101.102.103:6443", ""),
        ("https://[fd7a:115c:a1e0::1]:6443", ""),
        ("https://1.1.1.1:6443", ""),
        ("https://kube.example.com:6443", ""),
        ("https://[broken", ""),
    ],
)
def test_what_no_machine_elsewhere_reaches_by_itself(endpoint, why):
    assert out_of_reach(endpoint).startswith(why)
    assert bool(out_of_reach(endpoint)) == bool(why)


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


MESHES = [MeshSettings(each) for each in Backend]


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::]", "[::1]", "[::ffff:127.0.0.1]", "kubernetes.default.svc"]
)
def test_no_mesh_carries_a_route_to_the_machine_itself_or_to_a_service(host, mesh):
    assert unreachable(f"https://{host}:6443", mesh).endswith("set the control plane's address in the join Secret")


@pytest.mark.parametrize("mesh", MESHES, ids=str)
@pytest.mark.parametrize("host", ["cp-1", "cp-1.lan", "cp.c.project.internal", "[::ffff:100.64.0.5]"])
def test_a_class_is_not_stopped_for_a_name_that_its_machines_may_know(host, mesh):
    """By an entry in its template, or by the DNS server of the provider's network."""
    assert unreachable(f"https://{host}:6443", mesh) == ""
