"""What callers of the factory may rely on, tested with its simulator."""

import asyncio

import pytest

from tests.contracts.factory.stage import URL, Stage, play
from tgp.adapters.image_factory import wire
from tgp.core.model.talos import TalosVersion
from tgp.ports.http import Call, Reply
from tgp.ports.image_factory import FactoryError, FactoryRefused, Schematic
from tgp.sim.factory import Mood, schematics
from tgp.sim.factory.catalogue import VERSIONS

V1_13 = TalosVersion(13, 0)
TAILSCALE = Schematic(("siderolabs/tailscale",))
NOTHING = "376567988ad370138ad8b2698212367b8edcb69b5fd68c80be1f2ec7d603b4ba"  # the factory's own, as it publishes it


def test_equal_schematics_have_one_id_and_are_asked_for_once():
    async def script(stage: Stage) -> None:
        first, again, other = await asyncio.gather(
            stage.client.schematic(TAILSCALE),
            stage.client.schematic(Schematic(("siderolabs/tailscale",))),
            stage.client.schematic(Schematic(("siderolabs/gvisor", "siderolabs/tailscale"))),
        )

        assert first == again != other
        assert len(first) == 64
        assert stage.asked("POST /schematics") == 2

    play(script)


def test_the_empty_schematic_has_the_id_the_factory_publishes():
    async def script(stage: Stage) -> None:
        assert await stage.client.schematic(Schematic()) == NOTHING

    play(script)


def test_extensions_are_those_of_the_release_and_are_asked_for_once():
    async def script(stage: Stage) -> None:
        old, new = await stage.client.extensions(TalosVersion(10, 5)), await stage.client.extensions(V1_13)
        await stage.client.extensions(V1_13)

        assert "siderolabs/tailscale" in old
        assert new - old == {"siderolabs/newt"}
        assert stage.asked("/extensions/official") == 2

    play(script)


@pytest.mark.parametrize(
    ("asked", "there"),
    [
        (TalosVersion(10, 77), "v1.10.0, v1.10.5, v1.10.9"),
        (TalosVersion(99, 0), "v1.10.9, v1.11.6, v1.12.6, v1.13.9"),  # of another minor release
    ],
)
def test_a_release_that_is_not_there_is_refused_with_those_that_are(asked: TalosVersion, there: str):
    async def script(stage: Stage) -> None:
        with pytest.raises(FactoryRefused) as error:
            await stage.client.extensions(asked)
        assert str(error.value).endswith(f"has no Talos {asked}; it has {there}")

    play(script)


def test_versions_are_read():
    async def script(stage: Stage) -> None:
        assert await stage.client.versions() == set(VERSIONS)

    play(script)


@pytest.mark.parametrize(
    "mood", [Mood.HANG_UP, Mood.ERROR, Mood.GATEWAY, Mood.BUSY, Mood.HTML, Mood.EMPTY, Mood.GARBAGE, Mood.HUGE]
)
def test_what_cannot_be_used_is_asked_for_again_later(mood: Mood):
    async def script(stage: Stage) -> None:
        stage.simulator.moods = [mood, mood]
        for ask in (lambda: stage.client.schematic(TAILSCALE), lambda: stage.client.extensions(V1_13)):
            with pytest.raises(FactoryError) as caught:
                await ask()
            assert not isinstance(caught.value, FactoryRefused)

        assert await stage.client.schematic(TAILSCALE)
        assert await stage.client.extensions(V1_13)

    play(script)


@pytest.mark.parametrize("mood", [Mood.PAID, Mood.FORBIDDEN])
def test_a_factory_that_wants_an_account_refuses(mood: Mood):
    async def script(stage: Stage) -> None:
        stage.simulator.moods = [mood]
        with pytest.raises(FactoryRefused, match="requires an account"):
            await stage.client.schematic(TAILSCALE)

    play(script)


def test_no_answer_is_an_error_and_no_refusal():
    async def script(stage: Stage) -> None:
        stage.network.unmount(URL)
        with pytest.raises(FactoryError, match="cannot be reached") as caught:
            await stage.client.schematic(TAILSCALE)
        assert not isinstance(caught.value, FactoryRefused)

    play(script)


def test_addresses_are_put_together_from_the_base():
    async def script(stage: Stage) -> None:
        client = stage.client

        assert client.image(NOTHING, V1_13, "nocloud-amd64.raw.xz") == (
            f"https://factory.test/image/{NOTHING}/v1.13.0/nocloud-amd64.raw.xz"
        )
        assert client.installer(NOTHING, V1_13, "nocloud") == f"factory.test/nocloud-installer/{NOTHING}:v1.13.0"

    play(script)


def test_a_factory_below_a_path_keeps_it():
    assert wire.installer("https://own.test/talos/", NOTHING, V1_13, "metal") == (
        f"own.test/talos/metal-installer/{NOTHING}:v1.13.0"
    )
    assert wire.image("https://own.test/talos/", NOTHING, V1_13, "a").startswith("https://own.test/talos/image/")


@pytest.mark.parametrize("content", [b'{"id": "short"}', b'{"id": 7}', b"[]", b"null", b'{"id": "../../etc"}'])
def test_an_answer_without_an_id_is_none(content: bytes):
    with pytest.raises(FactoryError, match="without a schematic id"):
        wire.read_create(Reply(201, content))


@pytest.mark.parametrize("status", [400, 409, 422])
def test_its_own_words_are_shown_short_and_without_controls(status: int):
    refusal = wire.trouble(Reply(status, b"line 1:\n\x1b[31munknown field " + b"x" * 900), "the schematic")

    assert isinstance(refusal, FactoryRefused)
    assert "\x1b" not in str(refusal)
    assert len(str(refusal)) < 260


def test_a_redirect_means_nothing_here():
    assert not isinstance(wire.trouble(Reply(302), "the schematic"), FactoryRefused)


def test_names_that_are_no_extensions_are_left_out():
    rows = b'[{"name": "siderolabs/tailscale"}, {"name": "../x"}, {"name": 7}, null, "siderolabs/gvisor"]'

    assert wire.read_extensions(Reply(200, rows), V1_13) == {"siderolabs/tailscale"}


def test_an_empty_list_of_extensions_proves_nothing():
    with pytest.raises(FactoryError, match="listed no extension"):
        wire.read_extensions(Reply(200, b"[]"), V1_13)


# -- the simulator itself ----------------------------------------------------------------------------------------------


async def ask(stage: Stage, method: str, path: str, body: bytes = b"") -> Reply:
    return await stage.http.send(Call(method, path, body=body))


@pytest.mark.parametrize(
    "body",
    [
        b'{"customisation": {}}',
        b"customization:\n  systemExtensions:\n    extensions: [siderolabs/gvisor]\n",
        b'{"customization": {"extraKernelArgs": "console=ttyS0"}}',
        b"customization: [",
        b"\xff",
    ],
)
def test_the_factory_refuses_what_it_does_not_know(body: bytes):
    async def script(stage: Stage) -> None:
        assert (await ask(stage, "POST", "/schematics", body)).status == 400

    play(script)


def test_yaml_and_json_of_one_schematic_have_one_id():
    in_yaml = schematics.read(b"customization:\n  extraKernelArgs:\n  - vga=791\n")
    in_json = schematics.read(b'{"customization": {"extraKernelArgs": ["vga=791"]}}')

    assert isinstance(in_yaml, schematics.SchematicPlan)
    assert in_yaml == in_json
    assert schematics.digest(in_yaml) == schematics.digest(schematics.SchematicPlan(in_yaml.customization))


@pytest.mark.parametrize("mood", [None, Mood.HANG_UP, Mood.BUSY, Mood.GATEWAY])
def test_whether_an_image_is_built_is_known_by_asking_for_it(mood: Mood | None):
    """Silence and a gateway's impatience mean that it is being built; then it is where a redirect leads."""

    async def script(stage: Stage) -> None:
        found = await stage.client.schematic(TAILSCALE)
        assert await stage.client.built(found, V1_13, "vultr-amd64.raw") == ""
        await asyncio.sleep(120)
        if mood is not None:
            stage.simulator.moods = [mood]
            assert await stage.client.built(found, V1_13, "vultr-amd64.raw") == ""

        url = stage.client.image(found, V1_13, "vultr-amd64.raw")
        assert await stage.client.built(found, V1_13, "vultr-amd64.raw") == url.replace("/image/", "/blob/")

    play(script)


def test_an_image_that_cannot_be_built_is_refused():
    async def script(stage: Stage) -> None:
        with pytest.raises(FactoryRefused):
            await stage.client.built("ab" * 32, V1_13, "vultr-amd64.raw")
        stage.simulator.moods = [Mood.ERROR]
        with pytest.raises(FactoryError, match="retrying"):
            await stage.client.built("ab" * 32, V1_13, "vultr-amd64.raw")

    play(script)


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://own.test/talos/blob/a?sig=x", ("/blob/a", (("sig", "x"),))),
        ("https://blobs.test/talos/a", None),
        ("https://own.test.evil/talos/a", None),
        ("http://own.test/talos/a", None),
    ],
)
def test_only_the_factory_itself_is_asked(url: str, asked: tuple | None):
    call = wire.first_byte("https://own.test/talos/", url)

    assert (call and (call.path, call.query)) == asked


def test_an_image_is_built_when_it_is_first_asked_for_and_handed_out_elsewhere():
    async def script(stage: Stage) -> None:
        found = await stage.client.schematic(TAILSCALE)
        path = f"/image/{found}/v1.13.0/nocloud-amd64.raw.xz"
        assert (await ask(stage, "HEAD", path)).status == 502
        await asyncio.sleep(120)
        told, sent = await ask(stage, "HEAD", path), await ask(stage, "GET", path)

        assert (told.status, sent.status) == (200, 302)
        content = (await ask(stage, "GET", sent.header("Location"))).content
        assert len(content) == int(told.header("Content-Length"))

    play(script)


@pytest.mark.parametrize(
    ("schematic", "path", "status"),
    [
        (("siderolabs/nonsense",), "v1.13.0/nocloud-amd64.raw.xz", 400),
        ((), "v1.13.77/nocloud-amd64.raw.xz", 404),
        ((), "v1.13.0/nocloud-riscv.raw.xz", 400),
        ((), "v1.13.0/nocloud-amd64.raw.7z", 400),
    ],
)
def test_images_that_cannot_be_are_refused(schematic: tuple[str, ...], path: str, status: int):
    async def script(stage: Stage) -> None:
        found = await stage.client.schematic(Schematic(schematic))

        assert (await ask(stage, "HEAD", f"/image/{found}/{path}")).status == status

    play(script)
