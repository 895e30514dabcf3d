"""What every adapter reads and sends with."""

import pytest

from tests.contracts.clouds.providers.simulated import PROVIDER
from tests.contracts.clouds.stage import Stage, play
from tests.contracts.clouds.suite import Area, Promise
from tests.contracts.clouds.tally import Tally, excuses, table
from tgp.adapters.clouds.parse import answer_of
from tgp.core.model.cloud_errors import CannotTell
from tgp.ports.http import Call, Reply, UnreadableReply
from tgp.sim.clouds.http_factory import Dialler, origin_of

NO_JSON = [b"", b"<html>", b"{", b"NaN", b'"\xdf"', b"\xff\xfe", b"[" * 100_000 + b"]" * 100_000, b"9" * 5_000]


@pytest.mark.parametrize("content", NO_JSON, ids=lambda content: repr(content[:8]))
def test_what_is_no_json_is_unreadable_and_nothing_worse(content: bytes) -> None:
    """Bad UTF-8, a hundred thousand brackets and a number of five thousand digits have errors of their own."""
    reply = Reply(200, content)
    with pytest.raises(UnreadableReply):
        reply.json()
    with pytest.raises(CannotTell):
        answer_of(reply, "Acme")
    assert reply.text("id") == ""


def test_a_base_url_with_a_path_goes_before_every_path() -> None:
    async def script(stage: Stage) -> str:
        paths = []

        async def handler(call: Call) -> Reply:
            paths.append(call.path)
            return Reply(200)

        stage.network.mount(origin_of("http://acme.test/v2"), handler)
        await Dialler(stage.network, stage.clock)("http://acme.test/v2").send(Call("GET", "/pods"))
        await Dialler(stage.network, stage.clock)("http://acme.test").send(Call("GET", "/pods"))
        return " ".join(paths)

    assert play(PROVIDER, script) == "/v2/pods /pods"


async def _nothing(_stage: Stage) -> None:
    """A promise of nothing."""


def test_the_table_counts_what_was_kept_of_what_was_played() -> None:
    kept = Promise("offers: one", _nothing, lambda _provider: "")
    broken = Promise("offers: other", _nothing, lambda _provider: "")
    excused = Promise("launch: third", _nothing, lambda _provider: "it has none")
    tally = Tally()
    for one in (kept, broken):
        tally.began("simulated", one)
    tally.kept("simulated", kept)

    lines = list(table(tally))
    assert [line.split() for line in lines if line.strip().startswith(Area.OFFERS)] == [["offers", "1/2"]]
    assert lines[-1].split() == ["all", "1/2"]
    told = list(excuses([PROVIDER], [kept, broken, excused], tally))
    assert [line.strip() for line in told] == ["n/a simulated: it has none", "launch: third"]
