"""On the way into the cluster a machine is waited for in quiet words; only what was there and is gone is a trouble."""

from datetime import UTC, datetime

import pytest

from tgp.controllers.joining.mesh_cache import MeshObservation, MeshStatusCache
from tgp.core.joining.mesh.status import LEASE_STALE, NO_LEASE, Silence, silence_of
from tgp.core.model.mesh import TAILNET, Backend, Device, MeshStatus
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.requests.events import ON_ITS_WAY

NOW = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
ADDRESS = "100.101.7.9"
NODE = Node(key=ObjectKey("", "train-1"), ready=True, addresses=(("InternalIP", ADDRESS),))
DEVICE = Device("n1", "train-1", "train-1.tail.ts.net", (ADDRESS,))
QUIET = Silence(NO_LEASE, "the kubelet of Node train-1 has no Lease yet")


@pytest.mark.parametrize(
    ("lease", "reason"),
    [
        (None, NO_LEASE),
        ({}, NO_LEASE),
        ({"renewTime": "2026-01-05T08:59:30Z", "leaseDurationSeconds": 40}, None),
        ({"renewTime": "2026-01-05T08:59:10Z", "leaseDurationSeconds": 40}, LEASE_STALE),
        ({"renewTime": "yesterday", "leaseDurationSeconds": 40}, LEASE_STALE),
    ],
)
def test_a_kubelet_is_heard_by_its_lease(lease: dict[str, object] | None, reason: str | None):
    silence = silence_of("train-1", lease, NOW)

    assert (silence.reason if silence is not None else None) == reason
    assert silence is None or "Node train-1" in silence.words


def seen(node: Node | None, **sighting: object) -> MeshStatus:
    stands = MeshStatusCache()
    stands.put("token", MeshObservation(Backend.TAILSCALE, "train-1", TAILNET, has_devices=True, **sighting))
    return stands.of("token", node)


def test_a_node_whose_kubelet_was_not_heard_of_is_only_waited_for():
    """Also where the mesh was asked before the Node came: its Lease cannot have been read then."""
    found = seen(NODE, device=DEVICE, silent=QUIET)

    assert (found.ok, found.reason) == (False, NO_LEASE)
    assert found.reason in ON_ITS_WAY
    assert LEASE_STALE not in ON_ITS_WAY
    assert seen(NODE, device=DEVICE).ok


def test_a_device_that_was_never_listed_was_not_removed():
    coming, gone = seen(NODE), seen(NODE, known=True)

    assert coming.reason == "DeviceMissing"
    assert coming.reason in ON_ITS_WAY
    assert gone.reason == "DeviceUnknown"
    assert gone.reason not in ON_ITS_WAY
    assert "removed" not in coming.message


def test_without_a_mesh_a_machine_is_silent_only_once_its_node_is_here():
    stands = MeshStatusCache()
    stands.put("token", MeshObservation(Backend.NONE, "train-1", silent=QUIET))

    assert stands.of("token", None).ok
    assert stands.of("token", NODE).reason == NO_LEASE
