"""A worker's config without a template."""

import pytest

from tests.core.talos.a_plan import VERSIONS, a_join, a_plan
from tgp.core.joining.talos.generate import FLANNEL_ADDRESS, environment, generate, kubelet_may_set
from tgp.core.model.mesh import Backend, TailscaleJoin, TunnelJoin
from tgp.core.model.secret import Secret
from tgp.core.model.taints import Taint

KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


def a_tunnel(**changes):
    said = {
        "private_key": Secret(KEY),
        "address": "10.8.0.7/24",
        "server_key": KEY,
        "server_endpoint": "192.0.2.1:51820",
        "allowed_ips": ("10.8.0.0/24", "192.168.1.0/24"),
    }
    return TunnelJoin(**(said | changes))


def classic(plan, join=None):
    return generate(plan, join or a_join())[0]


def kinds(plan):
    return [document.get("kind", "v1alpha1") for document in generate(plan, a_join())]


def test_it_holds_what_a_kubelet_needs_to_join():
    config = classic(a_plan(bootstrap_token=Secret("abcdef.0123456789abcdef"), provider_id="tgp://vultr/tgp-1"))

    assert config["machine"]["type"] == "worker"
    assert config["cluster"]["token"] == "abcdef.0123456789abcdef"
    assert config["cluster"]["ca"] == {"crt": a_join().cluster_ca}
    assert config["machine"]["ca"] == {"crt": a_join().machine_ca}
    assert config["machine"]["kubelet"]["extraConfig"]["providerID"] == "tgp://vultr/tgp-1"
    assert config["cluster"]["controlPlane"] == {"endpoint": "https://192.0.2.1:6443"}


def test_what_is_off_unless_said_is_said():
    config = classic(a_plan())

    assert config["machine"]["features"]["kubePrism"] == {"enabled": True, "port": 7445}
    assert config["machine"]["features"]["hostDNS"]["enabled"] is True
    assert config["cluster"]["discovery"] == {"enabled": True}


@pytest.mark.parametrize(
    ("backend", "gate"),
    [
        (Backend.TAILSCALE, ["100.64.0.0/10"]),
        (Backend.HEADSCALE, ["100.64.0.0/10"]),
        (Backend.WIREGUARD, ["10.8.0.2/32"]),
        (Backend.KUBESPAN, None),
        (Backend.NONE, None),
    ],
)
def test_the_kubelet_waits_for_an_address_in_the_mesh(backend, gate):
    node_ip = classic(a_plan(backend=backend))["machine"]["kubelet"].get("nodeIP")

    assert node_ip == (None if gate is None else {"validSubnets": gate})


def test_the_gate_has_the_families_of_the_cluster():
    both = a_join(pod_subnets=("10.244.0.0/16", "fd00:1::/56"))
    only6 = a_join(pod_subnets=("fd00:1::/56",))

    assert classic(a_plan(), both)["machine"]["kubelet"]["nodeIP"] == {
        "validSubnets": ["100.64.0.0/10", "fd7a:115c:a1e0::/48"]
    }
    assert classic(a_plan(), only6)["machine"]["kubelet"]["nodeIP"] == {"validSubnets": ["fd7a:115c:a1e0::/48"]}


def test_taints_are_registered_and_never_set_later():
    machine = classic(a_plan(taints=(Taint("gpu", "NoSchedule", "true"), Taint("tgp.io/ephemeral", "NoSchedule"))))[
        "machine"
    ]

    assert machine["kubelet"]["extraConfig"]["registerWithTaints"] == [
        {"key": "gpu", "value": "true", "effect": "NoSchedule"},
        {"key": "tgp.io/ephemeral", "effect": "NoSchedule"},
    ]
    assert "nodeTaints" not in machine


@pytest.mark.parametrize(
    ("label", "may"),
    [
        ("tgp.io/request", True),
        ("nvidia.com/gpu.present", True),
        ("plain", True),
        ("node.kubernetes.io/instance-type", True),
        ("topology.kubernetes.io/region", True),
        ("kubernetes.io/arch", True),
        ("x.node.kubernetes.io/a", True),
        ("kubelet.kubernetes.io/a", True),
        ("node-role.kubernetes.io/gpu", False),
        ("node-restriction.kubernetes.io/team", False),
        ("kubernetes.io/anything", False),
        ("k8s.io/anything", False),
        ("scheduling.k8s.io/x", False),
        ("notkubernetes.io/x", True),
    ],
)
def test_only_labels_that_a_kubelet_may_set_go_into_its_config(label, may):
    """One that it may not set would hold back all the others."""
    assert kubelet_may_set(label) is may
    assert (label in classic(a_plan(labels={label: ""}))["machine"].get("nodeLabels", {})) is may


@pytest.mark.parametrize("talos", VERSIONS)
def test_the_host_name_stands_where_the_release_wants_it(talos):
    plan = a_plan(talos, node_name="train-1")
    documents = generate(plan, a_join())
    new = [document for document in documents if document.get("kind") == "HostnameConfig"]

    if plan.version.minor < 12:
        assert documents[0]["machine"]["network"] == {"hostname": "train-1"}
        assert new == []
    else:
        assert "network" not in documents[0]["machine"]
        assert new == [{"apiVersion": "v1alpha1", "kind": "HostnameConfig", "hostname": "train-1"}]


def test_the_extension_is_told_who_it_is_and_that_its_key_works_once():
    mesh = TailscaleJoin(
        Secret("tskey"),
        "train-1",
        accept_routes=True,
        advertise_routes=("10.0.0.0/8", "192.168.0.0/16"),
        login_server="https://hs.example.org",
    )

    assert environment(mesh) == {
        "TS_AUTHKEY": "tskey",
        "TS_HOSTNAME": "train-1",
        "TS_AUTH_ONCE": "true",
        "TS_ROUTES": "10.0.0.0/8,192.168.0.0/16",
        "TS_EXTRA_ARGS": "--login-server=https://hs.example.org --accept-routes",
    }
    assert generate(a_plan(mesh=mesh), a_join())[-1] == {
        "apiVersion": "v1alpha1",
        "kind": "ExtensionServiceConfig",
        "name": "tailscale",
        "environment": [f"{name}={value}" for name, value in environment(mesh).items()],
    }


def test_a_key_that_works_more_than_once_may_be_tried_again():
    assert environment(TailscaleJoin(Secret("k"), "h", single_use=False)) == {"TS_AUTHKEY": "k", "TS_HOSTNAME": "h"}


@pytest.mark.parametrize(
    ("talos", "endpoint", "new"),
    [
        ("v1.11.5", "192.0.2.1:51820", False),
        ("v1.12.5", "192.0.2.1:51820", True),
        ("v1.13.0", "[2001:db8::1]:51820", True),
        ("v1.13.0", "vpn.example.org:51820", False),  # the new kind takes addresses only
    ],
)
def test_a_tunnel_stands_where_the_release_takes_it(talos, endpoint, new):
    plan = a_plan(talos, mesh=a_tunnel(server_endpoint=endpoint))

    assert ("WireguardConfig" in kinds(plan)) is new
    assert ("interfaces" in classic(plan)["machine"].get("network", {})) is not new


def test_a_tunnel_leads_to_every_network_behind_it_but_never_everywhere():
    mesh = a_tunnel(allowed_ips=("10.8.0.0/24", "192.168.1.0/24", "0.0.0.0/0", "fd00::/64"))
    old = classic(a_plan("v1.10.5", mesh=mesh))["machine"]["network"]["interfaces"][0]
    new = generate(a_plan("v1.13.0", mesh=mesh), a_join())[-1]

    assert old["routes"] == [{"network": "192.168.1.0/24"}, {"network": "fd00::/64"}]
    assert new["routes"] == [{"destination": "192.168.1.0/24"}, {"destination": "fd00::/64"}]
    assert new["addresses"] == [{"address": "10.8.0.7/24"}]
    assert old["addresses"] == ["10.8.0.7/24"]


def test_flannel_is_told_the_address_in_the_tunnel():
    """By itself it takes the address of the rented network, which the cluster cannot reach."""
    assert classic(a_plan(mesh=a_tunnel()))["machine"]["nodeAnnotations"] == {FLANNEL_ADDRESS: "10.8.0.7"}


@pytest.mark.parametrize(("talos", "new"), [("v1.12.5", False), ("v1.13.0", True)])
def test_kubespan_stands_where_the_release_takes_it(talos, new):
    plan = a_plan(talos, Backend.KUBESPAN)

    assert ("KubeSpanConfig" in kinds(plan)) is new
    assert (classic(plan)["machine"].get("network", {}).get("kubespan") == {"enabled": True}) is not new


@pytest.mark.parametrize(("talos", "hardened"), [("v1.10.5", True), ("v1.12.5", True), ("v1.13.0", False)])
def test_gpus_get_their_modules_and_the_older_releases_their_sysctl(talos, hardened):
    machine = classic(a_plan(talos))["machine"]

    assert [module["name"] for module in machine["kernel"]["modules"]] == [
        "nvidia",
        "nvidia_uvm",
        "nvidia_drm",
        "nvidia_modeset",
    ]
    assert (machine.get("sysctls") == {"net.core.bpf_jit_harden": "1"}) is hardened


def test_a_machine_without_them_gets_neither():
    machine = classic(a_plan("v1.10.5", nvidia=False))["machine"]

    assert "kernel" not in machine
    assert "sysctls" not in machine


def test_a_strangers_host_gets_nothing_that_the_whole_cluster_shares():
    config = classic(a_plan(shared_secrets=False))

    assert "token" not in config["machine"]
    assert "id" not in config["cluster"]
    assert "secret" not in config["cluster"]
    assert config["cluster"]["discovery"] == {"enabled": False}
