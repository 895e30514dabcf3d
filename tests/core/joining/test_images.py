"""Which image a machine boots; and the images kept at Vultr: made once, waited for, given up. On both simulators."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.core.joining.test_mesh_selection import msgspec_class
from tgp.adapters.clouds.registry import AllClouds
from tgp.adapters.clouds.vultr import FACTS
from tgp.adapters.image_factory import FactoryClient
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.talos import TalosConfig
from tgp.controllers.joining.images import ImageNeed, ImageResolver
from tgp.controllers.joining.snapshots import BUILT_WITHIN, KEPT_FOR, LISTING_LAG, STUCK_AFTER, SnapshotManager
from tgp.core.model.boot_image import BootImage
from tgp.core.model.cloud_errors import CannotTell, CloudBusy
from tgp.core.model.image_mark import ImageMark
from tgp.core.model.mesh import Backend
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.secret import Secret
from tgp.core.model.talos import TalosVersion
from tgp.ports.boot import BootRefused
from tgp.ports.http import Call, HangUp, Reply
from tgp.ports.image_factory import FactoryError, FactoryRefused
from tgp.sim.clock import WorldClock
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.http_factory import Dialler
from tgp.sim.clouds.vultr import SNAPSHOT_ID, VultrSimulator
from tgp.sim.entropy import SeededEntropy
from tgp.sim.factory import FactorySimulator, Mood
from tgp.sim.loop import VirtualLoop, close
from tgp.sim.resolver import TableResolver
from tgp.sim.router import Network
from tgp.sim.trace import RunTrace

FACTORY, VULTR = "https://factory.test", "https://vultr.test"
V1_13 = TalosVersion(13, 0)
CLUSTER = "c0ffee0123"
MINUTE = 60
MAXIMAL_BOOT = 45 * MINUTE  # the slowest machines known took 25 minutes to start


def an_offer(provider: str = "vultr", boot: BootMode = BootMode.NATIVE, **changes: Any) -> Offer:
    fields: dict[str, Any] = {
        "provider": provider,
        "sku": "x",
        "place": "here",
        "gpu": "A100-80GB-SXM",
        "gpu_count": 1,
        "gpu_memory_gib": 80,
        "vcpus": 8,
        "memory_gib": 64,
        "disk_gib": 500,
        "hourly_microusd": 1_000_000,
        "boot": boot,
    }
    return Offer(**(fields | changes))


def a_class(**settings: Any) -> GPUNodeClass:
    return msgspec_class({"providers": [{"name": "vultr", "settings": {"endpoint": f"{VULTR}/v2", **settings}}]})


class ImageEnv:
    """An image resolver, and what it talks to."""

    def __init__(self, loop: VirtualLoop) -> None:
        self.clock = WorldClock(loop)
        self.factory = FactorySimulator(self.clock, building=timedelta(0))
        self.vultr = VultrSimulator(self.clock, 1)
        self.network = Network(loop, RunTrace(loop.time), 1)
        self.network.mount(FACTORY, self.factory.handle)
        self.network.mount(VULTR, self._vultr)
        self.lost = 0  # answers to imports that are lost after the fact
        self.urls: list[str] = []  # that Vultr was told to fetch from
        self.cluster = CLUSTER
        self.secret = "tgp-operator-secret"
        self.resolver = self.open()

    def open(self) -> ImageResolver:
        """A new run of the operator: it remembers nothing."""
        dial = Dialler(self.network, self.clock)
        client = FactoryClient(dial(FACTORY), FACTORY)
        return ImageResolver(
            client,
            AllClouds(dial, self.clock, SeededEntropy(1, "images"), TableResolver({})),
            self,
            SnapshotManager(self.clock),
            lambda: self.cluster,
        )

    async def read(self, name: str) -> Mapping[str, Secret] | None:
        return {"VULTR_API_KEY": Secret(self.vultr.key)} if name == self.secret else None

    async def _vultr(self, call: Call) -> Reply:
        if call.path.endswith("create-from-url"):
            self.urls.append(msgspec.json.decode(call.body)["url"])
        answer = await self.vultr.handle(call)
        if call.path.endswith("create-from-url") and self.lost > 0:
            self.lost -= 1
            raise HangUp
        return answer

    async def boot(
        self, offer: Offer | None = None, node_class: GPUNodeClass | None = None, **config: Any
    ) -> BootImage:
        backend = config.pop("backend", Backend.NONE)
        return await self.resolver.for_machine(
            V1_13,
            TalosConfig(**config),
            offer or an_offer(),
            backend,
            node_class=node_class or a_class(),
            nvidia=True,
        )

    async def preparing(self, **config: Any) -> str:
        """The words of one more try that has to wait."""
        with pytest.raises(BootRefused) as caught:
            await self.boot(**config)
        assert caught.value.reason == "ImagePreparing"
        return str(caught.value)

    async def ready(self, **config: Any) -> BootImage:
        """Try once a minute, as requests do, until it boots."""
        for _ in range(30):
            try:
                return await self.boot(**config)
            except BootRefused:
                await asyncio.sleep(MINUTE)
        raise AssertionError("it never got ready")

    @property
    def kept(self) -> list[str]:
        """Snapshots of the account, but for the administrator's."""
        return [each for each in self.vultr.snapshots["account-1"] if each != SNAPSHOT_ID]

    @property
    def imports(self) -> int:
        return len(self.vultr._imported)

    def need(self, version: TalosVersion = V1_13, node_class: GPUNodeClass | None = None) -> ImageNeed:
        return ImageNeed(node_class or a_class(), "vultr", version, TalosConfig(), Backend.NONE)


def play(script: Callable[[ImageEnv], Awaitable[None]]) -> None:
    loop = VirtualLoop()

    async def begin() -> None:
        await script(ImageEnv(loop))

    try:
        loop.run_until_complete(begin())
    finally:
        close(loop)


# -- schematics and addresses ------------------------------------------------------------------------------------------


def test_a_takeover_is_told_where_the_disk_image_is():
    async def script(env: ImageEnv) -> None:
        image = await env.boot(an_offer("lambdalabs", BootMode.TAKEOVER), backend=Backend.TAILSCALE)

        assert image.raw_url == f"{FACTORY}/image/{image.schematic}/v1.13.0/nocloud-amd64.raw.xz"
        assert image.installer == f"factory.test/nocloud-installer/{image.schematic}:v1.13.0"
        assert image.image == ""

    play(script)


def test_machines_that_need_other_extensions_have_other_images():
    async def script(env: ImageEnv) -> None:
        takeover = an_offer("lambdalabs", BootMode.TAKEOVER)
        eight = an_offer("lambdalabs", BootMode.TAKEOVER, gpu_count=8)
        found = {
            (await env.boot(takeover)).schematic,
            (await env.boot(takeover, backend=Backend.HEADSCALE)).schematic,
            (await env.boot(takeover, extensions=("siderolabs/gvisor",))).schematic,
            (await env.boot(eight)).schematic,
        }

        assert len(found) == 4

    play(script)


def test_an_extension_that_the_release_does_not_have_is_refused_by_its_name():
    async def script(env: ImageEnv) -> None:
        with pytest.raises(FactoryRefused, match=r"Talos v1\.13\.0 has no extension siderolabs/nonsense"):
            await env.boot(extensions=("siderolabs/nonsense", "siderolabs/gvisor"))

        assert env.imports == 0

    play(script)


def test_a_schematic_of_the_administrators_is_taken_at_their_word():
    async def script(env: ImageEnv) -> None:
        image = await env.boot(an_offer("paperspace", BootMode.TAKEOVER), schematic="ab" * 32)

        assert image.schematic == "ab" * 32
        assert env.factory.asked == []

    play(script)


def test_a_factory_in_trouble_is_asked_again_later():
    async def script(env: ImageEnv) -> None:
        env.factory.moods = [Mood.ERROR]
        with pytest.raises(FactoryError) as caught:
            await env.boot()

        assert not isinstance(caught.value, FactoryRefused)

    play(script)


def test_google_boots_the_administrators_image():
    async def script(env: ImageEnv) -> None:
        node_class = msgspec_class({"providers": [{"name": "gcp", "settings": {"image": "talos"}}]})
        image = await env.boot(an_offer("gcp"), node_class)

        assert image.image == ""  # the settings' own
        assert image.installer.startswith("factory.test/gcp-installer/")

    play(script)


# -- snapshots ---------------------------------------------------------------------------------------------------------


def test_vultr_fetches_an_image_once_and_machines_wait_for_it():
    async def script(env: ImageEnv) -> None:
        assert "lists no image" in await env.preparing()
        await asyncio.sleep(LISTING_LAG)
        assert "started the import" in await env.preparing()
        assert "is importing" in await env.preparing()
        await asyncio.sleep(10 * MINUTE)
        first, second = await asyncio.gather(env.boot(), env.boot())

        assert [first.image] == [second.image] == env.kept
        assert env.imports == 1

    play(script)


def test_nothing_is_fetched_before_the_factory_has_built_it_and_the_class_hears_of_it():
    """It builds what it is asked for first, which takes minutes; then the address after its redirect is handed over."""

    async def script(env: ImageEnv) -> None:
        env.factory.building = timedelta(minutes=5)
        assert "is building Talos v1.13.0; purchases" in await env.preparing()
        await asyncio.sleep(3 * MINUTE)
        assert "for 3 min" in await env.preparing()
        assert "for 3 min" in env.resolver.preparing(a_class())
        assert env.imports == 0
        image = await env.ready()

        (url,) = env.urls
        assert url == f"{FACTORY}/blob/{image.schematic}/v1.13.0/vultr-amd64.raw"
        assert env.resolver.preparing(a_class()) == ""

    play(script)


def test_an_image_that_the_factory_never_builds_has_a_bound():
    async def script(env: ImageEnv) -> None:
        env.factory.building = timedelta(days=1)
        await env.preparing()
        await asyncio.sleep(BUILT_WITHIN)
        with pytest.raises(BootRefused, match="has not built") as caught:
            await env.boot()

        assert caught.value.reason == "ImageNotBuilt"
        assert env.imports == 0
        assert " min now" not in await env.preparing(), "it is asked for again, and that is counted again"

    play(script)


def test_what_vultr_fetches_is_not_packed_and_carries_our_mark():
    async def script(env: ImageEnv) -> None:
        image = await env.ready()
        (imported,) = env.vultr._imported.values()

        assert imported.description == str(ImageMark(CLUSTER, V1_13, "amd64", image.schematic))

    play(script)


def test_a_snapshot_of_the_administrators_wins_and_nothing_is_made():
    async def script(env: ImageEnv) -> None:
        image = await env.boot(node_class=a_class(snapshotId=SNAPSHOT_ID))

        assert image.image == SNAPSHOT_ID
        assert env.imports == 0

    play(script)


@pytest.mark.parametrize("restarts", [False, True])
def test_a_lost_answer_is_looked_for_before_anything_is_made_again(restarts: bool):
    async def script(env: ImageEnv) -> None:
        env.lost = 1
        await env.preparing()
        await asyncio.sleep(LISTING_LAG)
        assert "searching for" in await env.preparing()
        if restarts:
            env.resolver = env.open()
        image = await env.ready()

        assert [image.image] == env.kept
        assert env.imports == 1

    play(script)


def test_two_runs_at_the_same_moment_make_one():
    """A new run looks twice, a listing lag apart, before it makes what an old one may just have made."""

    async def script(env: ImageEnv) -> None:
        old = env.resolver
        await env.preparing()
        await asyncio.sleep(LISTING_LAG)
        env.resolver = env.open()
        await env.preparing()
        env.resolver = old
        assert "started the import" in await env.preparing()
        env.resolver = env.open()
        await env.ready()

        assert env.imports == 1

    play(script)


@pytest.mark.parametrize("cloud_fault", [CloudFault.ERROR, CloudFault.HTML, CloudFault.GARBAGE, CloudFault.EMPTY_BODY])
def test_a_list_that_proves_nothing_makes_nothing(cloud_fault: CloudFault):
    async def script(env: ImageEnv) -> None:
        await env.preparing()
        await asyncio.sleep(LISTING_LAG)
        env.vultr.faults.aim(cloud_fault, CloudVerb.OTHER)
        with pytest.raises((CloudBusy, CannotTell)):
            await env.boot()

        assert env.imports == 0

    play(script)


def test_an_import_that_never_ends_is_begun_anew():
    async def script(env: ImageEnv) -> None:
        env.vultr.importing = 10 * STUCK_AFTER
        await env.preparing()
        await asyncio.sleep(LISTING_LAG)
        await env.preparing()
        env.vultr.importing = STUCK_AFTER / 100
        await asyncio.sleep(STUCK_AFTER.total_seconds() + 1)
        assert "timed out; retrying" in await env.preparing()
        image = await env.ready()

        assert [image.image] == env.kept
        assert env.imports == 2

    play(script)


def test_a_refused_import_says_what_else_can_be_done():
    async def script(env: ImageEnv) -> None:
        env.vultr._import = lambda *_: Reply(  # type: ignore[method-assign]
            400, b'{"error": "Expected a raw disk image", "status": 400}'
        )
        await env.preparing()
        await asyncio.sleep(LISTING_LAG)
        with pytest.raises(BootRefused, match=r"settings\.snapshotId") as caught:
            await env.boot()

        assert caught.value.reason == "ImageRefused"

    play(script)


def test_until_the_cluster_has_a_name_nothing_is_made():
    async def script(env: ImageEnv) -> None:
        env.cluster = ""
        assert "not known yet" in await env.preparing()

        assert await env.resolver.sweep((env.need(),)) == ()

    play(script)


# -- giving up ---------------------------------------------------------------------------------------------------------


def test_an_image_that_no_class_needs_is_given_up_after_a_while():
    async def script(env: ImageEnv) -> None:
        image = await env.ready()
        needs = (env.need(TalosVersion(13, 9)),)
        assert await env.resolver.sweep(needs) == ()
        await asyncio.sleep(KEPT_FOR - 2)
        assert await env.resolver.sweep(needs) == ()
        await asyncio.sleep(2)
        gone = await env.resolver.sweep(needs)

        assert gone == (str(ImageMark(CLUSTER, V1_13, "amd64", image.schematic)),)
        assert env.kept == []
        assert SNAPSHOT_ID in env.vultr.snapshots["account-1"]

    play(script)


def test_an_image_that_is_needed_stays_and_so_does_one_that_machines_were_just_ordered_with():
    async def script(env: ImageEnv) -> None:
        image = await env.ready()
        for _ in range(3):
            await asyncio.sleep(KEPT_FOR)
            assert await env.resolver.sweep((env.need(),)) == ()
        assert await env.resolver.sweep(()) == ()
        await asyncio.sleep(KEPT_FOR - 1)
        assert (await env.boot()).image == image.image
        await asyncio.sleep(KEPT_FOR - 1)

        assert await env.resolver.sweep(()) == ()

    play(script)


def test_what_machines_may_still_start_from_is_kept_long_enough():
    assert FACTS.listing_lag.total_seconds() <= LISTING_LAG
    assert KEPT_FOR >= MAXIMAL_BOOT


def test_a_class_that_comes_back_in_time_keeps_its_image():
    async def script(env: ImageEnv) -> None:
        await env.ready()
        await asyncio.sleep(KEPT_FOR)
        await env.resolver.sweep(())
        await asyncio.sleep(KEPT_FOR - 1)
        await env.resolver.sweep((env.need(),))
        await asyncio.sleep(2)

        assert await env.resolver.sweep(()) == ()

    play(script)


def test_images_of_others_are_never_touched():
    async def script(env: ImageEnv) -> None:
        await env.ready()
        env.cluster = "0000000bad"
        for _ in range(3):
            assert await env.resolver.sweep(()) == ()
            await asyncio.sleep(KEPT_FOR)

        assert len(env.kept) == 1

    play(script)


def test_of_two_with_one_mark_the_older_one_stays():
    async def script(env: ImageEnv) -> None:
        image = await env.ready()
        mark = str(ImageMark(CLUSTER, V1_13, "amd64", image.schematic))
        await asyncio.sleep(MINUTE)
        body = b'{"url": "https://x.test/a.raw", "description": "%s"}' % mark.encode()
        headers = (("Authorization", f"Bearer {env.vultr.key}"),)
        await env.vultr.handle(Call("POST", "/v2/snapshots/create-from-url", headers=headers, body=body))
        assert len(env.kept) == 2
        await env.resolver.sweep((env.need(),))
        await asyncio.sleep(KEPT_FOR)
        await env.resolver.sweep((env.need(),))

        assert env.kept == [image.image]

    play(script)


def test_one_that_is_still_being_fetched_does_not_push_out_one_that_is_ready():
    async def script(env: ImageEnv) -> None:
        env.vultr.importing = STUCK_AFTER * 9
        await env.preparing()
        await asyncio.sleep(LISTING_LAG)
        await env.preparing()
        (begun,) = env.vultr._imported.values()
        env.vultr.importing = STUCK_AFTER * 0
        body = b'{"url": "https://x.test/a.raw", "description": "%s"}' % begun.description.encode()
        headers = (("Authorization", f"Bearer {env.vultr.key}"),)
        await asyncio.sleep(MINUTE)
        await env.vultr.handle(Call("POST", "/v2/snapshots/create-from-url", headers=headers, body=body))
        image = await env.boot()
        for _ in range(3):
            await env.resolver.sweep((env.need(),))
            await asyncio.sleep(KEPT_FOR)

        assert image.image in env.kept

    play(script)


def test_a_shelf_whose_key_is_gone_is_left_as_it_is():
    async def script(env: ImageEnv) -> None:
        await env.ready()
        env.secret = "another"
        for _ in range(3):
            assert await env.resolver.sweep(()) == ()
            await asyncio.sleep(KEPT_FOR)

        assert len(env.kept) == 1

    play(script)


def test_a_factory_that_does_not_answer_keeps_everything():
    """Who cannot tell what is needed gives up nothing."""

    async def script(env: ImageEnv) -> None:
        await env.ready()
        env.resolver = env.open()
        await asyncio.sleep(KEPT_FOR)
        env.factory.moods = [Mood.ERROR] * 9
        with pytest.raises(FactoryError):
            await env.resolver.sweep((env.need(),))

        assert len(env.kept) == 1

    play(script)
