"""Which mesh a machine joins by, under which name, and by whose word."""

from typing import Any

import pytest

from tgp.api.decoding import strict
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.core.joining.mesh.selection import hostname_for, mesh_of
from tgp.core.model.mesh import Backend, Ref

KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


def a_class(provider: dict[str, Any] | None = None, **spec: Any) -> GPUNodeClass:
    written = {"name": "vultr", **(provider or {})}
    return msgspec_class({"providers": [written], **spec})


def msgspec_class(spec: dict[str, Any]) -> GPUNodeClass:
    manifest = {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": "c"}, "spec": spec}
    found = strict(manifest)
    assert isinstance(found, GPUNodeClass)
    return found


def a_request(**spec: Any) -> GPURequest:
    manifest = {"apiVersion": "tgp.io/v1", "kind": "GPURequest", "metadata": {"name": "r"}}
    found = strict({**manifest, "spec": {"gpuType": "RTX4090", **spec}})
    assert isinstance(found, GPURequest)
    return found


def test_what_is_configured_is_used_and_the_operators_choice_else():
    assert mesh_of(a_class(), "vultr", None, "").backend is Backend.NONE
    assert mesh_of(a_class(), "vultr", None, "kubespan").backend is Backend.KUBESPAN
    assert (
        mesh_of(a_class(tailscaleConfig={"tags": ["tag:gpu"]}), "vultr", None, "kubespan").backend is Backend.TAILSCALE
    )
    login = {"loginServer": "https://hs.example.org/", "apiKeySecretRef": {"name": "hs", "key": "k"}}
    found = mesh_of(a_class(tailscaleConfig=login), "vultr", None, "")
    assert (found.backend, found.login_server, found.api_key) == (
        Backend.HEADSCALE,
        "https://hs.example.org",
        Ref("hs", "k"),
    )


def test_the_operators_own_oauth_client_serves_classes_that_name_none():
    found = mesh_of(a_class(tailscaleConfig={"tags": ["tag:gpu"]}), "vultr", None, "")
    assert found.refs == (Ref("tgp-operator-secret", "client-id"), Ref("tgp-operator-secret", "client-secret"))
    fixed = {"authKeySecretRef": {"name": "ts", "key": "auth"}}
    assert mesh_of(a_class(tailscaleConfig=fixed), "vultr", None, "").refs == (Ref("ts", "auth"),)


def test_a_devices_life_in_the_tailnet_is_ephemeral_unless_said_otherwise():
    assert mesh_of(a_class(tailscaleConfig={"tags": ["tag:gpu"]}), "vultr", None, "").ephemeral
    assert not mesh_of(a_class(tailscaleConfig={"ephemeral": False}), "vultr", None, "").ephemeral


def test_one_providers_settings_count_for_that_provider_only():
    inner = {"talosConfig": {"tailscaleConfig": {"tags": ["tag:there"], "acceptRoutes": True}}}
    node_class = msgspec_class(
        {"providers": [{"name": "vultr", **inner}, {"name": "gcp"}], "networking": {"backend": "tailscale"}}
    )
    there, elsewhere = (mesh_of(node_class, name, None, "") for name in ("vultr", "gcp"))
    assert (there.tags, there.accept_routes) == (("tag:there",), True)
    assert (elsewhere.tags, elsewhere.accept_routes) == ((), False)


def test_a_request_may_narrow_the_tags_and_name_its_device():
    node_class = a_class(tailscaleConfig={"tags": ["tag:gpu", "tag:k8s"], "hostname": "gpu"})
    request = a_request(talosConfig={"tailscaleConfig": {"hostname": "Trainer", "tags": ["tag:gpu"]}})
    assert mesh_of(node_class, "vultr", request, "").tags == ("tag:gpu",)
    assert hostname_for(node_class, "vultr", request, "train-3f2a91bc") == "trainer"
    assert hostname_for(node_class, "vultr", None, "train-3f2a91bc") == "gpu-train-3f2a91bc"


@pytest.mark.parametrize(
    "node", ["a" * 54 + "-3f2a91bc", "with.dots-3f2a91bc", "x-3f2a91bc"], ids=["long", "dots", "short"]
)
def test_a_hostname_is_a_dns_label_and_keeps_what_makes_it_its_own(node: str):
    for prefix in ({}, {"hostname": "g" * 40}):
        name = hostname_for(a_class(tailscaleConfig={"tags": ["tag:gpu"], **prefix}), "vultr", None, node)
        assert len(name) <= 63
        assert name.endswith("-3f2a91bc")
        assert "." not in name


def test_a_tunnels_values_are_the_requests_before_the_classs():
    tunnel = {"publicKey": KEY, "serverEndpoint": "192.0.2.1:51820", "addressPool": "10.8.0.0/24"}
    node_class = a_class(talosConfig={"wireGuardConfig": {**tunnel, "privateKeySecretRef": {"name": "wg", "key": "p"}}})
    found = mesh_of(node_class, "vultr", None, "").tunnel
    assert found is not None
    assert (found.private_key, found.server_endpoint, found.address_pool) == (
        Ref("wg", "p"),
        "192.0.2.1:51820",
        "10.8.0.0/24",
    )
    request = a_request(talosConfig={"wireGuardConfig": {"serverEndpoint": "192.0.2.9:1", "address": "10.8.0.9/24"}})
    own = mesh_of(node_class, "vultr", request, "").tunnel
    assert own is not None
    assert (own.server_endpoint, own.address, own.server_key) == ("192.0.2.9:1", "10.8.0.9/24", KEY)
