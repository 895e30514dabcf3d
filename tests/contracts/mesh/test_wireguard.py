"""A plain tunnel: who is let in is one record in the cluster, and no two nodes ever share an address or a key."""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.mesh.registry import KUBESPAN_NEEDS, DevicelessMesh
from tgp.adapters.mesh.wireguard import WireGuardMesh
from tgp.adapters.mesh.wireguard import record as peers_record
from tgp.adapters.mesh.wireguard.keys import new_pair, pair_of
from tgp.adapters.mesh.wireguard.record import Peer, PeerRecord, lowest_free
from tgp.api.resource import NAMESPACE, SECRET
from tgp.core.model.mesh import (
    Backend,
    DeviceRef,
    KubeSpanJoin,
    MeshSettings,
    NoMesh,
    Ref,
    TunnelJoin,
    TunnelSettings,
)
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.secret import Secret
from tgp.ports.cluster import ClusterBusy, Conflict, Forbidden, Unauthenticated, WriteUnknown
from tgp.ports.mesh import JoinRequest, Mesh, MeshBusy, MeshRefused
from tgp.sim.apiserver.server import ApiServer
from tgp.sim.entropy import SeededEntropy
from tgp.sim.world import World

HOME = "tgp-system"
SERVER = new_pair(SeededEntropy(1, "server"))
OTHER_SERVER = new_pair(SeededEntropy(2, "server"))
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
POOL = TunnelSettings(
    server_key=SERVER.public,
    server_endpoint="203.0.113.7:51820",
    allowed_ips=("10.8.0.0/24",),
    address_pool="10.8.0.0/24",
)
OWN = new_pair(SeededEntropy(1, "own"))
EARLY = TunnelSettings(
    private_key=OWN.private,
    server_key=SERVER.public,
    server_endpoint="203.0.113.7:51820",
    allowed_ips=("10.8.0.0/24",),
    address="10.8.0.9/24",
)


class Ground:
    """A cluster in memory, and as many processes that write to it as a test wants."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.server = ApiServer(world.clock, SeededEntropy(1, "apiserver"))
        world.mount("kube", self.server.handle)
        self.cluster = KubeCluster(world.visitor("kube"), SeededEntropy(1, "cluster"))
        self.server.local_api.create(NAMESPACE, {"metadata": {"name": HOME}})
        self.meshes = 0

    def mesh(self, tunnel: TunnelSettings = POOL, secrets: Any = None, cluster: Any = None) -> WireGuardMesh:
        """Another process's: it shares nothing with the others but the cluster."""
        self.meshes += 1
        entropy = SeededEntropy(self.meshes, "mesh")
        wanted = MeshSettings(Backend.WIREGUARD, tunnel=tunnel)
        return WireGuardMesh(cluster or self.cluster, self.world.clock, entropy, wanted, secrets or {}, namespace=HOME)

    def run(self, what: Any) -> Any:
        return self.world.until(what)

    def join_request(self, hostname: str) -> JoinRequest:
        return JoinRequest(hostname, hostname, f"tgp-{hostname}", self.world.clock.now() + timedelta(hours=1))

    def enroll(self, mesh: WireGuardMesh, hostname: str) -> TunnelJoin:
        join = self.run(mesh.enroll(self.join_request(hostname))).join
        assert isinstance(join, TunnelJoin)
        return join

    def remove(self, mesh: WireGuardMesh, hostname: str) -> None:
        self.run(mesh.remove(DeviceRef(hostname, LONG_AGO)))

    def secret(self, mesh: WireGuardMesh) -> dict[str, Any]:
        found: dict[str, Any] = self.run(self.cluster.read(SECRET, mesh.key))
        return found

    def published(self, mesh: WireGuardMesh, key: str = "wg.conf") -> str:
        return b64decode(self.secret(mesh)["data"][key]).decode()


@pytest.fixture
def ground() -> Iterator[Ground]:
    with World(1) as world:
        yield Ground(world)


class Faulty:
    """A cluster whose next writes go wrong: before they happen, or after."""

    def __init__(self, inner: KubeCluster, *plan: Exception, after: bool) -> None:
        self._inner = inner
        self._plan = list(plan)
        self._after = after
        self.read = inner.read

    async def create(self, *args: Any) -> Any:
        return await self._write(self._inner.create, *args)

    async def patch(self, *args: Any, **expected: Any) -> Any:
        return await self._write(self._inner.patch, *args, **expected)

    async def _write(self, write: Callable[..., Any], *args: Any, **expected: Any) -> Any:
        error = self._plan.pop(0) if self._plan else None
        if error is None:
            return await write(*args, **expected)
        if self._after:
            await write(*args, **expected)
        raise error


# -- what a node is given ----------------------------------------------------------------------------------------------


def test_a_node_gets_a_key_of_its_own_and_the_lowest_address(ground):
    mesh: Mesh = ground.mesh()
    enrollment = ground.run(mesh.enroll(ground.join_request("train-1")))
    join = enrollment.join

    assert join.address == "10.8.0.2/24"  # .1 is the server's
    assert enrollment.address == "10.8.0.2"
    assert (join.server_key, join.server_endpoint) == (SERVER.public, "203.0.113.7:51820")
    assert join.allowed_ips == ("10.8.0.0/24",)
    assert join.ranges == (ip_network("10.8.0.2/32"),)
    public = X25519PrivateKey.from_private_bytes(b64decode(join.private_key.reveal())).public_key().public_bytes_raw()
    assert b64encode(public).decode() == enrollment.key_id


def test_what_is_published_is_what_wg_reads(ground):
    mesh = ground.mesh()
    first, second = (ground.run(mesh.enroll(ground.join_request(name))) for name in ("train-1", "train-2"))

    assert ground.published(mesh) == (
        f"{peers_record.HEADER}"
        f"\n[Peer]\n# train-1\nPublicKey = {first.key_id}\nAllowedIPs = 10.8.0.2/32\n"
        f"\n[Peer]\n# train-2\nPublicKey = {second.key_id}\nAllowedIPs = 10.8.0.3/32\n"
    )
    peers = json.loads(ground.published(mesh, "peers.json"))["peers"]
    assert {name: peer["address"] for name, peer in peers.items()} == {"train-1": "10.8.0.2", "train-2": "10.8.0.3"}


def test_no_private_key_is_ever_written_down(ground):
    mesh = ground.mesh()
    joins = [ground.enroll(mesh, f"train-{number}") for number in range(3)]
    early = ground.enroll(ground.mesh(replace(EARLY, server_key=OTHER_SERVER.public)), "early")

    written = json.dumps([b64decode(value).decode() for value in ground.secret(mesh)["data"].values()])
    for join in (*joins, early):
        assert join.private_key.reveal() not in written
        assert join.private_key.reveal() not in repr(join)


def test_a_removed_node_is_no_longer_published_and_its_address_is_free(ground):
    mesh = ground.mesh()
    for name in ("train-1", "train-2", "train-3"):
        ground.enroll(mesh, name)
    ground.remove(mesh, "train-2")

    assert "train-2" not in ground.published(mesh)
    assert ground.enroll(mesh, "train-4").address == "10.8.0.3/24"


def test_removing_what_is_gone_or_never_was_is_a_success_and_writes_nothing(ground):
    mesh = ground.mesh()
    ground.remove(mesh, "never")
    with pytest.raises(AssertionError, match="is not there"):
        _must_be_there(ground, mesh)

    ground.enroll(mesh, "train-1")
    ground.remove(mesh, "train-1")
    version = ground.secret(mesh)["metadata"]["resourceVersion"]
    ground.remove(mesh, "train-1")
    assert ground.secret(mesh)["metadata"]["resourceVersion"] == version


def _must_be_there(ground: Ground, mesh: WireGuardMesh) -> None:
    names = [found["metadata"]["name"] for found in ground.server.local_api.objects(SECRET)]
    assert mesh.key.name in names, f"{mesh.key.name} is not there"


def test_a_node_that_asks_again_keeps_its_address_and_its_last_key_counts(ground):
    first = ground.run(ground.mesh().enroll(ground.join_request("train-1")))
    ground.enroll(ground.mesh(), "train-2")
    after_a_crash = ground.mesh()
    again = ground.run(after_a_crash.enroll(ground.join_request("train-1")))

    assert again.address == first.address
    assert again.key_id != first.key_id
    assert again.key_id in ground.published(after_a_crash)
    assert first.key_id not in ground.published(after_a_crash)


# -- found again -------------------------------------------------------------------------------------------------------


def test_a_node_is_found_by_its_name_and_not_where_it_is_older_than_asked_for(ground):
    mesh = ground.mesh()
    enrollment = ground.run(mesh.enroll(ground.join_request("train-1")))

    found = ground.run(mesh.find(DeviceRef("train-1", LONG_AGO)))
    assert (found.id, found.hostname, found.addresses) == (enrollment.key_id, "train-1", ("10.8.0.2",))
    assert found.online is None
    assert ground.run(mesh.find(DeviceRef("train", LONG_AGO))) is None
    assert ground.run(mesh.find(DeviceRef("train-1", ground.world.clock.now() + timedelta(hours=1)))) is None
    assert ground.run(mesh.find(DeviceRef("train-1", LONG_AGO, device_id=SERVER.public))) is None
    ground.remove(mesh, "train-1")
    assert ground.run(mesh.find(DeviceRef("train-1", LONG_AGO))) is None


# -- no clash ----------------------------------------------------------------------------------------------------------


def test_many_that_enrol_at_once_all_get_different_addresses(ground):
    async def all_at_once() -> list[Any]:
        tickets = [ground.join_request(f"train-{number}") for number in range(24)]
        meshes = [ground.mesh() for _ in range(4)]  # four processes that do not know of each other
        return await asyncio.gather(
            *(meshes[number % 4].enroll(join_request) for number, join_request in enumerate(tickets)),
            return_exceptions=True,
        )

    results = ground.run(all_at_once())
    done = [each for each in results if not isinstance(each, Exception)]
    assert all(isinstance(each, MeshBusy) for each in results if isinstance(each, Exception))
    assert len(done) > 12
    assert len({each.address for each in done}) == len(done)
    peers = json.loads(ground.published(ground.mesh(), "peers.json"))["peers"]
    assert {peer["address"] for peer in peers.values()} == {each.address for each in done}


def test_two_pools_of_one_server_that_overlap_do_not_clash(ground):
    wide = ground.mesh()
    narrow = ground.mesh(replace(POOL, address_pool="10.8.0.0/28"))

    assert ground.enroll(wide, "train-1").address == "10.8.0.2/24"
    assert ground.enroll(narrow, "train-2").address == "10.8.0.3/28"
    assert ground.enroll(wide, "train-3").address == "10.8.0.4/24"


def test_two_servers_do_not_share_a_record(ground):
    one, other = ground.mesh(), ground.mesh(replace(POOL, server_key=OTHER_SERVER.public))

    assert ground.enroll(one, "train-1").address == ground.enroll(other, "train-2").address
    assert "train-2" not in ground.published(one)


@pytest.mark.parametrize("after", [False, True], ids=["before it happened", "after it happened"])
@pytest.mark.parametrize("error", [WriteUnknown("no answer"), Conflict("changed")], ids=["no answer", "conflict"])
def test_a_write_that_may_have_happened_gives_one_address_and_one_entry(ground, error, after):
    mesh = ground.mesh(cluster=Faulty(ground.cluster, error, error, after=after))

    join = ground.enroll(mesh, "train-1")
    assert join.address == "10.8.0.2/24"
    assert list(json.loads(ground.published(mesh, "peers.json"))["peers"]) == ["train-1"]


def test_a_record_that_others_keep_changing_is_busy_not_broken(ground):
    always = [Conflict("changed")] * 50
    with pytest.raises(MeshBusy, match="was changed by other clients"):
        ground.enroll(ground.mesh(cluster=Faulty(ground.cluster, *always, after=False)), "train-1")


# -- the pool ----------------------------------------------------------------------------------------------------------


def test_a_full_pool_is_refused_in_words_and_takes_again_what_was_freed(ground):
    mesh = ground.mesh(replace(POOL, address_pool="10.8.0.0/29", allowed_ips=("10.8.0.0/29",)))
    addresses = [ground.enroll(mesh, f"train-{number}").address for number in range(5)]

    assert addresses == [f"10.8.0.{number}/29" for number in (2, 3, 4, 5, 6)]  # .0 network, .1 server, .7 broadcast
    with pytest.raises(MeshRefused, match=r"addressPool 10\.8\.0\.0/29 is full"):
        ground.enroll(mesh, "train-5")
    assert ground.enroll(mesh, "train-3").address == "10.8.0.5/29"  # who is in stays in
    ground.remove(mesh, "train-0")
    assert ground.enroll(mesh, "train-5").address == "10.8.0.2/29"


def test_single_hosts_behind_the_tunnel_keep_their_addresses(ground):
    mesh = ground.mesh(replace(POOL, allowed_ips=("10.8.0.2/32", "10.8.0.4", "192.168.0.0/16")))

    assert [ground.enroll(mesh, name).address for name in ("a", "b")] == ["10.8.0.3/24", "10.8.0.5/24"]


def test_addresses_of_the_sixth_version(ground):
    mesh = ground.mesh(replace(POOL, address_pool="fd00:8::/64", allowed_ips=("fd00:8::/64",)))

    assert ground.enroll(mesh, "train-1").address == "fd00:8::2/64"
    assert "AllowedIPs = fd00:8::2/128\n" in ground.published(mesh)


@given(
    st.sampled_from(["10.0.0.0/30", "10.0.0.0/28", "10.0.0.0/31", "10.0.0.0/32", "fd00::/124", "fd00::/127"]),
    st.sets(st.integers(0, 20)),
)
@settings(max_examples=300, deadline=None)
def test_the_lowest_free_address_is_in_the_pool_and_unused(pool, taken):
    network = ip_network(pool)
    used = {network.network_address + number for number in taken}
    free = lowest_free(network, used)
    reserved = {network.network_address, network.network_address + 1}
    if network.version == 4:
        reserved.add(network.broadcast_address)
    candidates = sorted(set(network) - used - reserved)
    assert free == (candidates[0] if candidates else None)


# -- the early form: one key, one address, one node --------------------------------------------------------------------


def test_the_early_form_serves_one_node_at_a_time(ground):
    mesh = ground.mesh(EARLY)
    join = ground.enroll(mesh, "train-1")

    assert (join.private_key, join.address) == (OWN.private, "10.8.0.9/24")
    assert ground.enroll(ground.mesh(EARLY), "train-1").address == "10.8.0.9/24"  # the same one, asked again
    with pytest.raises(MeshRefused, match=r"privateKey serves one node at a time, and train-1 uses it") as caught:
        ground.enroll(mesh, "train-2")
    assert OWN.private.reveal() not in str(caught.value)
    ground.remove(mesh, "train-1")
    assert ground.enroll(mesh, "train-2").address == "10.8.0.9/24"


def test_a_fixed_address_without_a_key_serves_one_node_at_a_time_too(ground):
    mesh = ground.mesh(replace(EARLY, private_key=None))
    ground.enroll(mesh, "train-1")

    with pytest.raises(MeshRefused, match=r"address serves one node at a time, and train-1 uses it"):
        ground.enroll(mesh, "train-2")


def test_a_fixed_address_is_not_given_to_others_from_the_pool(ground):
    ground.enroll(ground.mesh(replace(EARLY, address="10.8.0.2/24")), "early")

    assert ground.enroll(ground.mesh(), "train-1").address == "10.8.0.3/24"


# -- settings ----------------------------------------------------------------------------------------------------------

REFS = {
    "private_key": Ref("wg", "private"),
    "server_key": Ref("wg", "server"),
    "server_endpoint": Ref("wg", "endpoint"),
    "allowed_ips": Ref("wg", "allowed"),
    "address": Ref("wg", "address"),
}
BEHIND = {
    REFS["private_key"]: Secret(f"{OWN.private.reveal()}\n"),
    REFS["server_key"]: Secret(f"{SERVER.public}\n"),
    REFS["server_endpoint"]: Secret("vpn.example.org:51820\n"),
    REFS["allowed_ips"]: Secret("10.8.0.0/24, 192.168.7.0/24\n"),
    REFS["address"]: Secret("10.8.0.9/24\n"),
}


def test_every_value_may_come_from_a_secret(ground):
    join = ground.enroll(ground.mesh(TunnelSettings(**REFS), BEHIND), "train-1")

    assert (join.private_key, join.server_key) == (OWN.private, SERVER.public)
    assert (join.server_endpoint, join.address) == ("vpn.example.org:51820", "10.8.0.9/24")
    assert join.allowed_ips == ("10.8.0.0/24", "192.168.7.0/24")


@pytest.mark.parametrize("member", sorted(set(REFS) - {"server_key"}))
def test_a_secret_that_is_missing_is_named_and_hinders_enrolling_but_not_removing(ground, member):
    ground.enroll(ground.mesh(TunnelSettings(**REFS), BEHIND), "train-1")
    left = {ref: value for ref, value in BEHIND.items() if ref != REFS[member]}
    mesh = ground.mesh(TunnelSettings(**REFS), left)

    with pytest.raises(MeshRefused, match=rf"SecretRef points to {REFS[member]}, which does not exist"):
        ground.enroll(mesh, "train-2")
    report = ground.run(mesh.check())
    assert not report.usable
    assert str(REFS[member]) in report.problems[0]
    ground.remove(mesh, "train-1")
    assert ground.run(mesh.find(DeviceRef("train-1", LONG_AGO))) is None


def test_without_the_servers_key_there_is_no_mesh(ground):
    with pytest.raises(MeshRefused, match=r"publicKeySecretRef points to wg/server"):
        ground.mesh(TunnelSettings(**REFS), {})
    with pytest.raises(MeshRefused, match=r"publicKey is missing"):
        ground.mesh(replace(POOL, server_key=None))
    with pytest.raises(MeshRefused, match=r"publicKey is not a WireGuard key"):
        ground.mesh(replace(POOL, server_key="c2hvcnQ="))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"address_pool": ""}, "addressPool is missing"),
        ({"address_pool": "10.8.0.1/24"}, "addressPool is not a network"),
        ({"address_pool": "all of them"}, "addressPool is not a network"),
        ({"server_endpoint": None}, "serverEndpoint is not host:port"),
        ({"server_endpoint": "vpn.example.org"}, "serverEndpoint is not host:port"),
        ({"server_endpoint": "vpn.example.org:99999"}, "serverEndpoint is not host:port"),
        ({"server_endpoint": "2001:db8::7:51820"}, "in brackets"),
        ({"allowed_ips": ("everything",)}, "allowedIPs is not a network"),
        ({"address_pool": "", "address": "10.8.0.9", "allowed_ips": ()}, "allowedIPs is missing"),
        ({"address": "here"}, "address is not an address"),
        ({"private_key": Secret("canary-not-a-key")}, "privateKey is not a WireGuard key"),
    ],
)
def test_what_is_wrong_is_named_by_its_field(ground, change, words):
    mesh = ground.mesh(replace(POOL, **change))

    with pytest.raises(MeshRefused, match=words) as caught:
        ground.enroll(mesh, "train-1")
    assert "canary" not in str(caught.value)
    report = ground.run(mesh.check())
    assert not report.usable
    assert words in report.problems[0]
    assert mesh.ranges == ()


def test_where_nothing_is_said_the_tunnel_leads_to_its_own_network(ground):
    assert ground.enroll(ground.mesh(replace(POOL, allowed_ips=())), "train-1").allowed_ips == ("10.8.0.0/24",)
    assert ground.mesh().ranges == (ip_network("10.8.0.0/24"),)
    assert ground.mesh(EARLY).ranges == (ip_network("10.8.0.9/32"),)


def test_a_good_tunnel_says_where_its_server_reads(ground):
    report = ground.run(ground.mesh().check())

    assert report.usable
    assert f"{HOME}/tgp-wireguard-" in report.notes[0]
    assert "one node at a time" in ground.run(ground.mesh(EARLY).check()).notes[1]


@pytest.mark.parametrize("hostname", ["", "two words", "train\n[Peer]", "-train", "train-", "x" * 254])
def test_a_name_that_is_none_never_reaches_what_is_published(ground, hostname):
    with pytest.raises(MeshRefused, match="not a host name"):
        ground.enroll(ground.mesh(), hostname)


# -- the record and the cluster ----------------------------------------------------------------------------------------


def test_the_record_cannot_be_deleted_while_it_names_a_node(ground):
    mesh = ground.mesh()
    ground.enroll(mesh, "train-1")
    ground.run(ground.cluster.delete(SECRET, mesh.key))

    assert ground.enroll(mesh, "train-2").address == "10.8.0.3/24"
    ground.remove(mesh, "train-1")
    ground.remove(mesh, "train-2")
    assert ground.run(mesh.find(DeviceRef("train-2", LONG_AGO))) is None
    with pytest.raises(AssertionError, match="is not there"):
        _must_be_there(ground, mesh)
    assert ground.enroll(mesh, "train-3").address == "10.8.0.2/24"


def test_what_people_add_to_the_secret_stays(ground):
    mesh = ground.mesh()
    ground.enroll(mesh, "train-1")
    mine = {"metadata": {"annotations": {"team": "research"}}, "data": {"note": b64encode(b"mine").decode()}}
    ground.run(ground.cluster.patch(SECRET, mesh.key, mine))
    ground.enroll(mesh, "train-2")

    kept = ground.secret(mesh)
    assert kept["metadata"]["annotations"]["team"] == "research"
    assert b64decode(kept["data"]["note"]) == b"mine"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"version": 2, "server": "x", "peers": {}}',
        json.dumps({"version": 1, "server": SERVER.public, "peers": {"a": {"publicKey": "x", "address": "10.8.0.2"}}}),
        json.dumps({"version": 1, "server": SERVER.public, "peers": {"a\n[Peer]": {}}}),
        json.dumps({"version": 1, "server": SERVER.public, "peers": {"a": None}}),
    ],
)
def test_a_record_that_another_client_wrote_into_is_refused_and_left_alone(ground, text):
    mesh = ground.mesh()
    data = {"peers.json": b64encode(text.encode()).decode()}
    made = {"metadata": {"namespace": HOME, "name": mesh.key.name}, "data": data}
    ground.run(ground.cluster.create(SECRET, made))

    for asked in (
        mesh.enroll(ground.join_request("train-1")),
        mesh.find(DeviceRef("a", LONG_AGO)),
        mesh.remove(DeviceRef("a", LONG_AGO)),
    ):
        with pytest.raises(MeshRefused, match=rf"Secret {HOME}/{mesh.key.name} cannot be read"):
            ground.run(asked)
    assert ground.published(mesh, "peers.json") == text


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (Forbidden("no"), MeshRefused, "let its Role get, create and patch Secrets"),
        (ClusterBusy("later"), MeshBusy, "could not be read or written"),
        (Unauthenticated("who?"), MeshBusy, "could not be read or written"),
    ],
)
def test_what_the_cluster_says_is_told_as_the_meshs_word(ground, error, kind, words):
    mesh = ground.mesh(cluster=Faulty(ground.cluster, error, after=False))

    with pytest.raises(kind, match=words):
        ground.enroll(mesh, "train-1")


def test_a_record_is_read_as_it_was_written():
    now = datetime(2026, 11, 16, 7, 0, 0, 123456, tzinfo=UTC)
    record = PeerRecord(
        {"b": Peer(OWN.public, ip_address("fd00::2"), now), "a": Peer(SERVER.public, ip_address("10.0.0.2"), now)}
    )

    assert peers_record.read(peers_record.texts(record, SERVER.public)["peers.json"], SERVER.public) == record


def test_a_key_made_by_us_looks_as_wg_makes_them():
    for number in range(50):
        pair = new_pair(SeededEntropy(number, "keys"))
        raw = b64decode(pair.private.reveal())
        assert raw[0] & 7 == 0
        assert raw[31] & 0b1100_0000 == 0b0100_0000
        assert pair_of(pair.private) == pair


# -- the two that need nothing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mesh", "join"),
    [
        (DevicelessMesh(MeshSettings(Backend.NONE), NoMesh()), NoMesh()),
        (DevicelessMesh(MeshSettings(Backend.KUBESPAN), KubeSpanJoin(), KUBESPAN_NEEDS), KubeSpanJoin()),
    ],
    ids=["none", "kubespan"],
)
async def test_a_mesh_that_hands_nothing_out_keeps_the_port(mesh: Mesh, join: Any):
    trace = DeviceRef("train-1", LONG_AGO)
    enrollment = await mesh.enroll(JoinRequest("train-1", "train-1", "tgp-1", LONG_AGO))

    assert (enrollment.join, enrollment.key_id, enrollment.address) == (join, "", "")
    assert not mesh.has_devices
    assert mesh.ranges == ()
    assert await mesh.find(trace) is None
    await mesh.remove(trace)
    assert (await mesh.check()).usable


def test_the_name_of_a_record_fits_a_secret_and_never_changes():
    assert ObjectKey(HOME, peers_record.name_of("x" * 43 + "=")) == ObjectKey(HOME, "tgp-wireguard-6feeb93e67")
