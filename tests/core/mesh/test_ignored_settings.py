"""What a request says about a mesh it does not join by is named, rather than passed over in silence."""

import pytest

from tests.core.requests.an_observation import a_class, a_condition, a_machine, a_node, an_observation, listed
from tgp.api.request import RequestTailscale, RequestTalos, RequestWireGuard
from tgp.core.joining.mesh.ignored_settings import ignored_message
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.status import compute_status
from tgp.core.requests.steps import Wait

TUNNEL = RequestTalos(wire_guard_config=RequestWireGuard(address="10.8.0.9/24"))
DEVICE = RequestTalos(tailscale_config=RequestTailscale(hostname="gpu"))
ASKS = {"talos_config": TUNNEL}
WAITS = Wait("NoOfferFits", "none of 3 offers fits")


def ignored(observation: RequestObservation) -> list[tuple[bool | None, str, str]]:
    told = compute_status(observation, WAITS).updates
    return [(each.status, each.reason, each.message) for each in told if each.type == "MeshConfigIgnored"]


@pytest.mark.parametrize("backend", ["tailscale", "headscale", "kubespan", "none"])
def test_a_tunnel_counts_for_nothing_in_another_mesh(backend):
    words = ignored_message(TUNNEL, backend)

    assert words.startswith("spec.talosConfig.wireGuardConfig has no effect: ")
    assert ("joins no mesh" if backend == "none" else f"joins by {backend}") in words


@pytest.mark.parametrize("backend", ["wireguard", "kubespan", "none"])
def test_a_device_in_a_tailnet_counts_for_nothing_without_one(backend):
    assert ignored_message(DEVICE, backend).startswith("spec.talosConfig.tailscaleConfig has no effect: ")


@pytest.mark.parametrize(
    ("talos", "backend"),
    [
        (TUNNEL, "wireguard"),
        (DEVICE, "tailscale"),
        (DEVICE, "headscale"),
        (RequestTalos(image="v1.13.0"), "none"),
        (None, "none"),
    ],
)
def test_what_counts_is_not_complained_about(talos, backend):
    assert ignored_message(talos, backend) == ""


def test_both_are_named_where_neither_counts():
    both = RequestTalos(wire_guard_config=RequestWireGuard(), tailscale_config=RequestTailscale())

    assert ignored_message(both, "kubespan").startswith(
        "spec.talosConfig.wireGuardConfig and spec.talosConfig.tailscaleConfig have no effect: "
    )


@pytest.mark.parametrize(
    "observation",
    [
        an_observation(spec=ASKS, node_class=a_class()),
        an_observation(a_machine(), spec=ASKS, node=a_node(), presence=listed(), joined_by="kubespan"),
    ],
    ids=["waits", "runs"],
)
def test_the_request_says_so_as_long_as_it_lives_and_goes_on_saying_what_matters_more(observation):
    computed = compute_status(observation, WAITS)

    ((status, reason, message),) = ignored(observation)
    assert (status, reason) == (True, "AnotherMesh")
    assert message.startswith("spec.talosConfig.wireGuardConfig has no effect: ")
    assert computed.message not in ("", message)


def test_what_is_unknown_now_stays_as_it_was():
    """A class that was edited is looked at in a moment: a condition that comes and goes would be told twice."""
    said = (a_condition("MeshConfigIgnored", "AnotherMesh"),)

    assert ignored(an_observation(spec=ASKS, conditions=said)) == [(True, "AnotherMesh", "As it was said.")]
    assert ignored(an_observation(conditions=said, node_class=a_class())) == []
    assert ignored(an_observation(spec=ASKS)) == []
