"""What a request says about a mesh it does not join by is named, rather than passed over in silence."""

import pytest

from tests.core.rules.a_sight import a_condition, a_machine, a_node, a_sight, listed
from tgp.api.request import RequestTailscale, RequestTalos, RequestWireGuard
from tgp.core.rules.lifecycle_words import tell
from tgp.core.rules.mesh.inert import inert_words
from tgp.core.rules.sight import Sight
from tgp.core.rules.steps import Rest

TUNNEL = RequestTalos(wire_guard_config=RequestWireGuard(address="10.8.0.9/24"))
DEVICE = RequestTalos(tailscale_config=RequestTailscale(hostname="gpu"))
WAITS = Rest("NoOfferFits", "none of 3 offers fits")


def inert(sight: Sight) -> list[tuple[bool | None, str, str]]:
    told = tell(sight, WAITS).verdicts
    return [(each.status, each.reason, each.message) for each in told if each.type == "MeshConfigInert"]


@pytest.mark.parametrize("backend", ["tailscale", "headscale", "kubespan", "none"])
def test_a_tunnel_counts_for_nothing_in_another_mesh(backend):
    words = inert_words(TUNNEL, backend)

    assert words.startswith("spec.talosConfig.wireGuardConfig has no effect: ")
    assert ("joins no mesh" if backend == "none" else f"joins by {backend}") in words


@pytest.mark.parametrize("backend", ["wireguard", "kubespan", "none"])
def test_a_device_in_a_tailnet_counts_for_nothing_without_one(backend):
    assert inert_words(DEVICE, backend).startswith("spec.talosConfig.tailscaleConfig has no effect: ")


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
    assert inert_words(talos, backend) == ""


def test_both_are_named_where_neither_counts():
    both = RequestTalos(wire_guard_config=RequestWireGuard(), tailscale_config=RequestTailscale())

    assert inert_words(both, "kubespan").startswith(
        "spec.talosConfig.wireGuardConfig and spec.talosConfig.tailscaleConfig have no effect: "
    )


@pytest.mark.parametrize(
    "sight",
    [a_sight(inert="so"), a_sight(a_machine(), node=a_node(), presence=listed(), inert="so")],
    ids=["waits", "runs"],
)
def test_the_request_says_so_as_long_as_it_lives_and_goes_on_saying_what_matters_more(sight):
    story = tell(sight, WAITS)

    assert inert(sight) == [(True, "AnotherMesh", "so")]
    assert story.message not in ("", "so")


def test_what_nobody_can_tell_now_stays_as_it_was():
    """A class that was edited is looked at in a moment: a condition that comes and goes would be told twice."""
    said = (a_condition("MeshConfigInert", "AnotherMesh"),)

    assert inert(a_sight(conditions=said)) == [(True, "AnotherMesh", "as it was said")]
    assert inert(a_sight(conditions=said, inert="")) == []
    assert inert(a_sight()) == []
