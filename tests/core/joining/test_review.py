"""Names, keys and papers of machines, where two of them, two accounts or two clocks meet."""

import asyncio
import json
from base64 import b64decode
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from tests.core.controllers.account_access import a_record, a_token, an_attempt
from tests.core.joining.packing import JOINS_WITHIN, NODE, WG_SERVER, Packing, in_a_hall
from tgp.adapters.kube.client import KubeCluster
from tgp.api.resource import CONFIG_MAP, LEASE, SECRET
from tgp.controllers.joining.mesh_cache import MeshStatusCache
from tgp.controllers.joining.reconciler import NODE_LEASES, JoinReconciler
from tgp.controllers.joining.snapshots import KEPT_FOR, SnapshotManager
from tgp.core.joining.mesh.status import LEASE_STALE
from tgp.core.joining.talos.tailscale_up_flags import joined_arguments
from tgp.core.model.image_mark import ImageMark
from tgp.core.model.join_record import JOIN_RECORDS, JoinRecord
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.talos import TalosVersion
from tgp.core.requests.node_names import node_name_for
from tgp.ports.boot import BootRefused
from tgp.ports.images import StoredImage
from tgp.sim.entropy import SeededEntropy

TAG = "tag:tgp-gpu"
TAILNET = {"networking": {"backend": "tailscale"}, "tailscaleConfig": {"tags": [TAG]}}
TUNNEL = {
    "networking": {"backend": "wireguard"},
    "talosConfig": {
        "wireGuardConfig": {
            "publicKey": WG_SERVER,
            "serverEndpoint": "203.0.113.7:51820",
            "addressPool": "10.8.0.0/24",
        }
    },
}
NAMED = {"talosConfig": {"tailscaleConfig": {"hostname": "trainer"}}}


# -- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["train.v2", "a.b.c", "x" * 60 + ".y", "train"])
def test_a_nodes_name_has_no_dots_since_talos_would_register_the_part_before_the_first(name: str) -> None:
    record = msgspec.structs.replace(a_record(1), key=ObjectKey("team", name))
    made = node_name_for(record.key, a_token(1))

    assert "." not in made
    assert len(made) <= 63
    assert made[0].isalnum()
    assert made != node_name_for(record.key, a_token(2))


def test_names_that_differ_in_a_dot_only_are_still_two() -> None:
    one = node_name_for(ObjectKey("team", "a.b"), a_token(1))
    two = node_name_for(ObjectKey("team", "a-b"), a_token(2))

    assert one != two


def test_a_hostname_that_another_machine_has_in_the_tailnet_is_refused() -> None:
    async def script(hall: Packing) -> None:
        await hall.pack(TAILNET, NAMED, token=a_token(1), node_name="first-3f2a91bc")
        with pytest.raises(BootRefused, match="first-3f2a91bc") as caught:
            await hall.pack(TAILNET, NAMED, token=a_token(2), node_name="second-3f2a91bc")
        assert caught.value.reason == "HostnameTaken"
        assert len(hall.tailscale.tailnet.keys) == 1

    in_a_hall(script)


def test_of_two_that_ask_for_one_hostname_at_once_one_gets_it() -> None:
    async def script(hall: Packing) -> None:
        both = (hall.pack(TAILNET, NAMED, token=a_token(number), node_name=f"n-{number}") for number in (1, 2))
        found = await asyncio.gather(*both, return_exceptions=True)
        assert sum(isinstance(each, BootRefused) for each in found) == 1

    in_a_hall(script)


def test_what_an_earlier_attempt_left_under_its_hostname_goes_before_the_next_has_it() -> None:
    async def script(hall: Packing) -> None:
        await hall.pack(TAILNET, NAMED, token=a_token(1, 1), node_name="train-1")
        await hall.pack(TAILNET, NAMED, token=a_token(1, 2), node_name="train-2")
        assert list(await hall.book.entries()) == [a_token(1, 2)]
        tailnet = hall.tailscale.tailnet
        assert [tailnet.is_valid(key) for key in tailnet.keys.values()] == [False, True]

    in_a_hall(script)


def test_two_requests_with_one_hostname_have_two_addresses_in_a_tunnel() -> None:
    async def script(hall: Packing) -> None:
        first = await hall.pack(TUNNEL, NAMED, token=a_token(1), node_name="first-3f2a91bc")
        second = await hall.pack(TUNNEL, NAMED, token=a_token(2), node_name="second-3f2a91bc")
        assert first.tunnel["addresses"] != second.tunnel["addresses"]
        await hall.boot.discard(a_token(1))
        (secret,) = (
            each
            for each in hall.env.server.local_api.objects(SECRET, "tgp-system")
            if each["metadata"]["name"].startswith("tgp-wireguard-")
        )
        assert list(json.loads(b64decode(secret["data"]["peers.json"]))["peers"]) == ["second-3f2a91bc"]

    in_a_hall(script)


@pytest.mark.parametrize("address", ["10.8.0.1/24", "10.8.0.0/24", "10.8.0.255/24", "10.9.0.7/24", "fd00::7/64"])
def test_a_tenant_does_not_get_the_tunnels_own_addresses_or_others_by_asking(address: str) -> None:
    async def script(hall: Packing) -> None:
        asked = {"talosConfig": {"wireGuardConfig": {"address": address}}}
        with pytest.raises(BootRefused, match="cannot be a node's address") as caught:
            await hall.pack(TUNNEL, asked)
        assert caught.value.reason == "MeshRefused"
        within = await hall.pack(TUNNEL, {"talosConfig": {"wireGuardConfig": {"address": "10.8.0.7/24"}}})
        assert within.tunnel["addresses"] == ["10.8.0.7/24"]

    in_a_hall(script)


@pytest.mark.parametrize("flag", ["--hostname=other", "--hostname other", "-hostname other"])
def test_a_template_does_not_rename_a_machine_in_the_tailnet_by_a_flag(flag: str) -> None:
    assert joined_arguments("--accept-routes", f"{flag} --ssh") == "--accept-routes --ssh"


# -- keys and papers ---------------------------------------------------------------------------------------------------


def test_a_key_of_the_mesh_lasts_as_long_as_a_deadline_can_be_extended() -> None:
    async def script(hall: Packing) -> None:
        before = hall.env.now
        await hall.pack(TAILNET)
        (key,) = hall.tailscale.tailnet.keys.values()
        assert key.expires_at >= before + 2 * JOINS_WITHIN

    in_a_hall(script)


def test_deleted_join_records_are_rebuilt_in_full() -> None:
    async def script(hall: Packing) -> None:
        await hall.pack(TAILNET, token=a_token(1), node_name="one-3f2a91bc")
        hall.env.server.local_api.delete(CONFIG_MAP, "tgp-system", JOIN_RECORDS)
        await hall.pack(TAILNET, token=a_token(2), node_name="two-3f2a91bc")
        assert set(await hall.book.entries()) == {a_token(1), a_token(2)}
        found = hall.env.server.local_api.get(CONFIG_MAP, "tgp-system", JOIN_RECORDS)
        assert found is not None
        assert set(found["data"]) == {a_token(1), a_token(2)}

    in_a_hall(script)


class Account:
    title = "Vultr"

    def __init__(self, *images: StoredImage) -> None:
        self.images = list(images)

    async def list(self) -> tuple[StoredImage, ...]:
        return tuple(self.images)

    async def make(self, mark: str, url: str) -> StoredImage:
        raise NotImplementedError

    async def remove(self, image_id: str) -> None:
        self.images = [each for each in self.images if each.id != image_id]


def test_unused_images_are_deleted_in_each_of_several_accounts() -> None:
    async def script(hall: Packing) -> None:
        keeper = SnapshotManager(hall.env.clock)
        mark = str(ImageMark("c0ffee0123", TalosVersion(13, 0), "amd64", "ab" * 32))
        accounts = [Account(StoredImage(f"image-{number}", mark, ready=True)) for number in range(2)]
        for _ in range(4):
            for account in accounts:
                await keeper.sweep(account, "c0ffee0123", ())
            await asyncio.sleep(KEPT_FOR / 2)
        assert [account.images for account in accounts] == [[], []]

    in_a_hall(script)


# -- whose device, and whether it lives --------------------------------------------------------------------------------


class Porch:
    """The keeper, before a hall in which one machine was packed."""

    def __init__(self, hall: Packing, joins_by: datetime | None = None) -> None:
        self.hall = hall
        self.recalled: JoinRecord | None = None
        self.stands = MeshStatusCache()
        cluster = KubeCluster(hall.env.line, SeededEntropy(5, "keeper"))
        env = hall.env
        self.keeper = JoinReconciler(
            env.requests,
            env.nodes,
            book=hall.book,
            tokens=env.tokens,
            meshes=hall.boot._meshes,
            mesh_statuses=self.stands,
            cluster=cluster,
            clock=env.clock,
            joins_by=lambda _record, _attempt: joins_by,
            announce=lambda _key: None,
            recall=lambda _record, _attempt: self.recalled,
            discard=hall.boot.discard,
        )
        launched = an_attempt(1, outcome="Launched")
        self.record = a_record(1, launched)
        env.requests.put(self.record)

    async def look(self, address: str = "") -> None:
        if address:
            node = Node(key=ObjectKey("", NODE), resource_version=1, ready=True, addresses=(("InternalIP", address),))
            self.hall.env.nodes.put(node)
        await self.keeper.reconcile(self.record.key)

    async def device(self) -> str:
        entry = await self.hall.book.get(a_token(1))
        assert entry is not None
        assert entry.mesh is not None
        return entry.mesh.device_id


def test_a_device_that_only_has_the_name_is_not_on_record_before_a_node_has_its_address() -> None:
    """A device may have any name: a foreign device must not be matched."""

    async def script(hall: Packing) -> None:
        await hall.pack(TAILNET)
        porch, tailnet = Porch(hall), hall.tailscale.tailnet
        namesake = tailnet.add(NODE, (TAG,))
        await porch.look()
        assert await porch.device() == ""
        (key,) = tailnet.keys.values()
        machine = tailnet.join(key.secret, NODE)
        await asyncio.sleep(10)
        await porch.look(machine.addresses[0])
        assert await porch.device() == machine.id != namesake.id

    in_a_hall(script)


def test_a_kubelet_that_claims_another_machines_address_does_not_get_its_device_removed() -> None:
    async def script(hall: Packing) -> None:
        await hall.pack(TAILNET)
        porch, tailnet = Porch(hall), hall.tailscale.tailnet
        victim = tailnet.add("another-3f2a91bc", (TAG,))
        await porch.look(victim.addresses[0])
        assert await porch.device() == ""
        await hall.boot.discard(a_token(1))
        assert [seat.id for seat in tailnet.devices()] == [victim.id]

    in_a_hall(script)


def test_a_kubelet_whose_clock_is_behind_is_heard_by_every_renewal() -> None:
    async def script(hall: Packing) -> None:
        await hall.pack({"networking": {"backend": "none"}})
        porch = Porch(hall)
        behind = timedelta(minutes=3)
        renew(hall, hall.env.now - behind)
        await porch.look("10.0.0.7")
        node = hall.env.nodes.get(ObjectKey("", NODE))
        assert porch.stands.of(a_token(1), node).reason == LEASE_STALE  # unknown yet
        await asyncio.sleep(15)
        renew(hall, hall.env.now - behind)
        await porch.look()
        assert porch.stands.of(a_token(1), node).ok
        await asyncio.sleep(60)
        await porch.look()
        assert porch.stands.of(a_token(1), node).reason == LEASE_STALE

    in_a_hall(script)


def renew(hall: Packing, moment: datetime) -> None:
    spec: dict[str, Any] = {
        "holderIdentity": NODE,
        "leaseDurationSeconds": 40,
        "renewTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    local_api = hall.env.server.local_api
    if local_api.get(LEASE, NODE_LEASES, NODE) is None:
        local_api.create(LEASE, {"metadata": {"namespace": NODE_LEASES, "name": NODE}, "spec": spec})
    else:
        local_api.merge_patch(LEASE, NODE_LEASES, NODE, {"spec": spec})


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_a_record_that_is_dropped_while_its_machine_is_looked_at_stays_dropped(steps: int, lost: bool) -> None:
    """At whatever moment of the look, and where the record would be rebuilt because it was lost."""

    async def script(hall: Packing) -> None:
        await hall.pack(TAILNET)
        porch = Porch(hall, joins_by=hall.env.now + timedelta(hours=2))
        if lost:
            porch.recalled = await hall.book.get(a_token(1))
        look = asyncio.ensure_future(porch.look())
        for _ in range(steps):
            await asyncio.sleep(0.005)
        await hall.boot.discard(a_token(1))
        await look
        await porch.look()
        assert await hall.book.entries() == {}

    in_a_hall(script)
