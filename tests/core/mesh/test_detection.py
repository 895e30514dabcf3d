"""Which mesh a cluster shows: KubeSpan before Tailscale, Headscale by its server, and else none."""

import pytest

from tgp.core.joining.mesh.detection import mesh_of_config, mesh_of_nodes, mesh_of_operator

EXTENSION = "kind: ExtensionServiceConfig\nname: tailscale\nenvironment: [{}]\n"


@pytest.mark.parametrize(
    ("metadata", "backend"),
    [
        ([], None),
        ([{"name": "a"}], None),
        ([{"name": "a", "annotations": {"networking.talos.dev/kubespan-ip": ""}}], None),
        ([{"name": "a", "labels": {"extensions.talos.dev/tailscale": "1.88"}}], "tailscale"),
        (
            [
                {"name": "a", "labels": {"extensions.talos.dev/tailscale": "1.88"}},
                {"name": "b", "annotations": {"networking.talos.dev/kubespan-ip": "fd83::1"}},
            ],
            "kubespan",
        ),
    ],
)
def test_nodes_show_it(metadata, backend):
    found = mesh_of_nodes(metadata)

    assert (found.backend if found is not None else None) == backend


@pytest.mark.parametrize(
    ("text", "backend", "server"),
    [
        ("machine: {type: worker}", None, ""),
        ("not: [yaml", None, ""),
        ("machine: {network: {kubespan: {enabled: true}}}", "kubespan", ""),
        ("machine: {network: {kubespan: {enabled: false}}}", None, ""),
        ("machine: {}\n---\nkind: KubeSpanConfig\nenabled: true\n", "kubespan", ""),
        (EXTENSION.format("TS_AUTHKEY=x"), "tailscale", ""),
        (
            EXTENSION.format("'TS_EXTRA_ARGS=--ssh --login-server=https://hs.example:8443'"),
            "headscale",
            "https://hs.example:8443",
        ),
        (EXTENSION.format("TS_EXTRA_ARGS=--login-server https://hs.example"), "headscale", "https://hs.example"),
    ],
)
def test_a_machine_config_shows_it(text, backend, server):
    found = mesh_of_config(text)

    assert (found.backend if found is not None else None) == backend
    assert (found.login_server if found is not None else "") == server


def test_the_tailscale_operator_may_serve_a_headscale():
    def deployment(*env):
        return {"spec": {"template": {"spec": {"containers": [{"env": list(env)}]}}}}

    assert mesh_of_operator(deployment()).backend == "tailscale"
    found = mesh_of_operator(deployment({"name": "OPERATOR_LOGIN_SERVER", "value": "https://hs.example"}))
    assert (found.backend, found.login_server) == ("headscale", "https://hs.example")
