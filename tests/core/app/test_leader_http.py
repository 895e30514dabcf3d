"""What changes anything leaves while this replica leads, or not at all."""

from contextlib import AbstractAsyncContextManager
from datetime import timedelta

import pytest

from tgp.app.deps import leader_http
from tgp.ports.http import Call, Http, NeverLeft, Reply, Stream


class Way:
    def __init__(self) -> None:
        self.calls: list[Call] = []

    async def send(self, call: Call) -> Reply:
        self.calls.append(call)
        return Reply(200)

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError(f"{call} left, {idle}")


class AFence:
    def __init__(self, until: float | None) -> None:
        self.until = until

    def deadline(self) -> float | None:
        return self.until

    def epoch(self) -> str:
        return "uid/1"

    def check(self) -> None:
        pass


def a_way(fence: AFence | None) -> tuple[Http, Way, list[tuple[str, str]]]:
    way, dialled = Way(), []

    def dial(base_url: str, *, address: str = "") -> Http:
        dialled.append((base_url, address))
        return way

    return leader_http(dial, fence)("https://acme.example", address="192.0.2.1"), way, dialled


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize(("own", "sent"), [(None, 50.0), (70.0, 50.0), (30.0, 30.0)])
async def test_a_changing_call_is_good_for_no_longer_than_we_lead(method, own, sent):
    http, way, dialled = a_way(AFence(50.0))
    await http.send(Call(method, "/machines", not_after=own))

    assert [call.not_after for call in way.calls] == [sent]
    assert dialled == [("https://acme.example", "192.0.2.1")]


async def test_who_does_not_lead_changes_nothing_and_may_look():
    http, way, _ = a_way(AFence(None))
    with pytest.raises(NeverLeft, match="does not lead"):
        await http.send(Call("POST", "/machines"))
    with pytest.raises(NeverLeft, match="does not lead"):
        http.stream(Call("POST", "/machines"), idle=timedelta(seconds=1))
    await http.send(Call("GET", "/machines", not_after=7.0))

    assert [(call.method, call.not_after) for call in way.calls] == [("GET", 7.0)]


async def test_the_fence_is_asked_for_every_call_anew():
    fence = AFence(10.0)
    http, way, _ = a_way(fence)
    await http.send(Call("POST", "/a"))
    fence.until = 20.0
    await http.send(Call("POST", "/b"))

    assert [call.not_after for call in way.calls] == [10.0, 20.0]


async def test_where_there_is_no_lease_calls_pass_as_they_are():
    http, way, _ = a_way(None)
    await http.send(Call("POST", "/search"))

    assert http is way
    assert way.calls[0].not_after is None
