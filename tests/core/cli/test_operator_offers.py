"""`tgp offers` from the operator's own book, and from this terminal's keys where that may not be read."""

import json
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta

import pytest

from tgp.core.access.token import AUDIENCE, TOKEN_HEADER
from tgp.core.model.offer import BootMode, Stock
from tgp.interfaces.cli.operator_offers import FROM_OPERATOR, OperatorOffers
from tgp.interfaces.web.offers_page import query_of, question_of
from tgp.ports.http import Call, NeverLeft, Reply, Stream
from tgp.services.documents.market import NotAnOfferList, offer_list, read_offer_list
from tgp.services.market_answers import NoKey, OfferAnswer, OfferItem, OfferNotes, OfferQuestion, ProviderTrouble
from tgp.services.operator_api import OperatorApi

ROW = OfferItem(
    name="vultr/a",
    provider="vultr",
    gpu="A100",
    count=2,
    gpu_memory_gib=80,
    vcpus=12,
    memory_gib=0,
    region="us-east",
    place="ewr",
    spot=True,
    hourly_microusd=2_397_001,
    per_gpu_microusd=1_198_501,
    age_seconds=12.5,
    stock=Stock.LIKELY,
    boot=BootMode.NATIVE,
    left=3,
    open_ports=12,
    cuda="12.8",
    download_mbps=900,
)
OTHER = replace(ROW, name="b", spot=False, boot=BootMode.CONTAINER, priced_on="2026-01-02", failed_seconds_ago=60.0)
DRIVERLESS = replace(ROW, name="c", no_driver="no (no GPU driver)", virtual=True, stock=Stock.NONE, left=None)
NOTES = OfferNotes(
    rejected={"too expensive": 3},
    dropped={"bad shape": 1},
    no_key=(NoKey("RunPod", "RUNPOD_API_KEY", public=True),),
    troubles=(ProviderTrouble("Vast.ai", "no answer", 40.0),),
    advice=("--region mars: unknown",),
)
ANSWER = OfferAnswer((ROW, OTHER, DRIVERLESS), NOTES)
PROXY = "/api/v1/namespaces/tgp-system/services/https:tgp-operator:https/proxy/api/v1/offers"
QUESTION = OfferQuestion(("A100",), 2, 2_500_000, ("us",), True, ("vultr",), talos=True, min_vram_gib=40)


class Server:
    """An API server with a proxy to the operator."""

    def __init__(self, offers: Reply | None = None, token: Reply | None = None) -> None:
        self.calls: list[Call] = []
        self._offers = offers or Reply(200, json.dumps(offer_list(ANSWER.rows, ANSWER.notes)).encode())
        self._token = token or Reply(201, b'{"status": {"token": "the-token"}}')

    async def send(self, call: Call) -> Reply:
        self.calls.append(call)
        return self._token if call.method == "POST" else self._offers

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        raise AssertionError(f"nothing is streamed: {call} {idle}")


class Unreachable(Server):
    async def send(self, call: Call) -> Reply:
        raise NeverLeft(f"no connection for {call}")


class Market:
    async def look(self, _question: OfferQuestion) -> OfferAnswer:
        return OfferAnswer((OTHER,), OfferNotes())


def offers(server: Server) -> OperatorOffers:
    return OperatorOffers(OperatorApi(server, "tgp-system"), Market())


def test_what_is_written_is_read_back():
    assert read_offer_list(json.loads(json.dumps(offer_list(ANSWER.rows, ANSWER.notes)))) == ANSWER


def test_a_list_of_an_earlier_operator_is_read_without_what_it_does_not_say():
    document = json.loads(json.dumps(offer_list((ROW,), NOTES)))
    for name in ("openPorts", "cuda", "downloadMbps"):
        del document["items"][0][name]

    assert read_offer_list(document).rows == (replace(ROW, open_ports=0, cuda="", download_mbps=0),)


@pytest.mark.parametrize("document", [None, [], {}, {"kind": "Status"}, {"kind": "OfferList", "items": [{}]}])
def test_any_other_document_is_refused(document):
    with pytest.raises(NotAnOfferList):
        read_offer_list(document)


@pytest.mark.parametrize("question", [OfferQuestion(), QUESTION, OfferQuestion(spot=False)])
def test_the_operator_reads_the_question_that_was_meant(question):
    assert question_of(Call("GET", "/", query=query_of(question)))[0] == question


async def test_a_token_for_the_operator_alone_travels_in_a_header_of_its_own():
    server = Server()
    asked = offers(server)
    answer = await asked.look(QUESTION)
    await asked.look(QUESTION)
    order, first, second = server.calls
    spec = json.loads(order.body)["spec"]

    assert answer.rows == ANSWER.rows
    assert answer.notes.advice[-1] == FROM_OPERATOR
    assert order.path == "/api/v1/namespaces/tgp-system/serviceaccounts/tgp-viewer/token"
    assert spec == {"audiences": [AUDIENCE], "expirationSeconds": 600}
    assert (first.path, first.header(TOKEN_HEADER), first.header("Authorization")) == (PROXY, "the-token", "")
    assert second.header(TOKEN_HEADER) == "the-token", "one token for both"


@pytest.mark.parametrize(
    ("server", "said"),
    [
        (Unreachable(), "no connection"),
        (Server(token=Reply(403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}')), "token"),
        (Server(token=Reply(404, b'{"kind":"Status","code":404,"reason":"NotFound","message":"no"}')), "tgp-viewer"),
        (Server(token=Reply(201, b"{}")), "status"),
        (Server(Reply(403, b'{"code": 403, "message": "x may not list offers.tgp.io"}')), "403: x may not"),
        (Server(Reply(503, b"no endpoints available")), "503"),
        (Server(Reply(200, b"<html>")), "expected JSON"),
        (Server(Reply(200, b'{"kind": "Other"}')), "expected OfferList"),
    ],
)
async def test_where_the_operator_may_not_be_read_the_terminals_keys_are_used_and_why_is_said(server, said):
    answer = await offers(server).look(OfferQuestion())

    assert answer.rows == (OTHER,)
    assert said in answer.notes.advice[-1]
    assert "the-token" not in answer.notes.advice[-1]
