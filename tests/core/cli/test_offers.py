"""`tgp offers`: what it costs, how sure that is, whether it can join; and nothing left out in silence."""

import asyncio
import io
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from ruamel.yaml import YAML

from tests.core.cli.rows import a_row
from tgp.core.model.offer import BootMode, Stock
from tgp.interfaces.cli.offers import LOOK_EVERY, OutputForm, _answer, next_command, offers
from tgp.interfaces.cli.offers_view import render
from tgp.services.market_answers import NoKey, OfferAnswer, OfferNotes, OfferQuestion, ProviderTrouble
from tgp.sim.loop import run

ROWS = (
    a_row(
        provider="webhook", gpu="RTX3090", boot=BootMode.POWER, hourly_microusd=75_000, place="cellar", region="home"
    ),
    a_row(provider="vast", gpu="RTX4090", boot=BootMode.CONTAINER, spot=True, hourly_microusd=131_600),
    a_row(provider="gcp", gpu="L4", stock=Stock.UNKNOWN, priced_on="2026-11-15", age_seconds=700),
    a_row(stock=Stock.LIKELY, failed_seconds_ago=245),
    a_row(provider="paperspace", gpu="A100-80GB-SXM", gpu_count=8, boot=BootMode.TAKEOVER, hourly_microusd=25_440_000),
    a_row(provider="lambdalabs", gpu="H100-SXM", boot=BootMode.TAKEOVER, stock=Stock.NONE),
)
NOTES = OfferNotes(
    rejected={"cannot boot Talos": 95, "too expensive": 210},
    dropped={"bad price": 2},
    no_key=(NoKey("RunPod", "RUNPOD_API_KEY"), NoKey("Vast.ai", "VAST_API_KEY", public=True)),
    troubles=(
        ProviderTrouble("Vultr", "Vultr did not answer GET /v2/plans", 420),
        ProviderTrouble("Lambda Labs", "odd answer"),
    ),
    next_command="tgp check",
)


def drawn(rows=ROWS, notes=NOTES, width: int = 80, **how) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=1000, color_system=None).print(render(rows, notes, width, **how))
    return out.getvalue().splitlines()


def line_of(lines: list[str], words: str) -> str:
    return next(line for line in lines if words in line)


class FakeServices:
    """A market that says what it was told to, and remembers what it was asked."""

    def __init__(self, *rows, notes: OfferNotes = NOTES) -> None:
        self.asked: list[OfferQuestion] = []
        self._answer = OfferAnswer(rows, notes)

    @asynccontextmanager
    async def offers(self, _providers, _kubeconfig, _context, **_direct):
        yield self

    async def look(self, question: OfferQuestion) -> OfferAnswer:
        self.asked.append(question)
        return self._answer


def typed(services: FakeServices, *arguments: str, width: int = 80):
    return CliRunner().invoke(offers, arguments, obj=services, env={"COLUMNS": str(width)})


def test_at_eighty_columns_a_row_says_what_it_is_what_it_costs_how_sure_it_is_and_how_it_joins():
    lines = drawn()

    assert " ".join(line_of(lines, "vast").split()) == "vast 1x RTX4090 us-east spot 0.132 0.132 12s unknown no"
    assert line_of(lines, "8x").split()[-5:] == ["3.180", "25.440", "12s", "unknown", "talos?"]
    assert line_of(lines, "webhook").endswith("owned")
    assert "failed 4m" in line_of(lines, "L40S")
    assert "sold out" in line_of(lines, "H100")


@pytest.mark.parametrize("width", [50, 60, 70, 80, 100, 120, 160])
def test_at_any_usual_width_stock_and_join_are_whole(width):
    """Columns go, one after another; the words that decide are not cut."""
    heads, *lines = drawn(width=width)[: len(ROWS) + 1]
    said = [line[heads.index("STOCK") :] for line in lines]

    assert "JOIN" in heads
    assert [words for words in said if "…" in words] == []


def test_a_wide_terminal_says_it_in_full_words():
    lines = drawn(width=220)

    assert "failed 4 min ago" in line_of(lines, "1x L40S")
    assert "talos-node (native)" in line_of(lines, "1x L40S")
    assert "talos-node (takeover, unproven)" in line_of(lines, "8x")
    assert "no (container)" in line_of(lines, "RTX4090")
    assert "owned machine" in line_of(lines, "webhook")
    assert "table of 2026-11-15" in line_of(lines, "L4 ")
    assert lines[0].split()[:6] == ["PROVIDER", "GPU", "VRAM", "VCPU", "MEMORY", "REGION"]


def test_what_is_missing_is_said_below():
    text = "\n".join(drawn(width=120))

    assert "6 offers." in text
    assert "Left out: too expensive (210), cannot boot Talos (95)." in text
    assert "Not listed: bad price (2)." in text
    assert "Not asked, no API key. RunPod: set RUNPOD_API_KEY." in text
    assert "Public prices only, no API key. Vast.ai: set VAST_API_KEY." in text
    assert "! Vultr did not answer GET /v2/plans. Its offers are 7m old." in text
    assert "! Lambda Labs: odd answer. Its offers are unknown." in text
    assert "Prices of gcp are from a table of 2026-11-15: the API has no prices." in text
    assert text.endswith("next: tgp check")


def test_nothing_ever_claims_to_be_available():
    assert "available" not in "\n".join([*drawn(), *drawn(width=220)]).lower()


def test_a_long_list_is_cut_and_says_so():
    lines = drawn(rows=[a_row(sku=f"s{number}") for number in range(60)], limit=25)

    assert sum("L40S" in line for line in lines) == 25
    assert "The best 25 of 60 offers; --limit 0 shows all." in lines
    assert sum("L40S" in line for line in drawn(rows=[a_row() for _ in range(60)], limit=0)) == 60


FOREIGN = st.text(max_size=30)


@given(
    width=st.integers(40, 230),
    rows=st.lists(
        st.builds(
            a_row,
            provider=st.sampled_from(["vast", "paperspace", "lambdalabs"]),
            gpu=FOREIGN,
            region=FOREIGN,
            place=FOREIGN,
            gpu_count=st.integers(1, 16),
            hourly_microusd=st.integers(1, 10**9),
            spot=st.booleans(),
            stock=st.sampled_from(Stock),
            boot=st.sampled_from(BootMode),
            age_seconds=st.floats(0, 10**7),
            failed_seconds_ago=st.none() | st.floats(0, 86_400),
        ),
        max_size=12,
    ),
)
def test_whatever_providers_say_no_line_is_too_long_and_each_row_has_one(width, rows):
    lines = drawn(rows, replace(NOTES, next_command=""), width)

    assert all(cell_len(line) <= width for line in lines)
    assert lines.index("") == (len(rows) + 1 if rows else 1)
    if rows:
        assert {"PROVIDER", "GPU", "$/H"} <= set(lines[0].split())


@pytest.mark.parametrize("how", ["json", "yaml"])
def test_programs_get_every_row_and_every_note(how):
    result = typed(FakeServices(*ROWS), "-o", how)
    said = json.loads(result.output) if how == "json" else YAML(typ="safe", pure=True).load(result.output)

    assert (said["apiVersion"], said["kind"], len(said["items"])) == ("cli.tgp.io/v1", "OfferList", 6)
    assert said["items"][1] == {
        "name": "vast/vcg-l40s/ewr/spot",
        "provider": "vast",
        "gpu": "RTX4090",
        "gpuCount": 1,
        "gpuMemoryGiB": 48,
        "vcpus": 16,
        "memoryGiB": 180,
        "region": "us-east",
        "place": "ewr",
        "kind": "spot",
        "virtualMachine": False,
        "usdPerHour": 0.1316,
        "usdPerGpuHour": 0.1316,
        "ageSeconds": 12,
        "availability": "unknown",
        "left": None,
        "failedSecondsAgo": None,
        "bootMode": "container",
        "join": "no (container)",
        "source": "live",
        "openPorts": None,
        "cuda": None,
        "downloadMbps": None,
    }
    assert said["items"][3]["failedSecondsAgo"] == 245
    assert said["rejected"] == {"too expensive": 210, "cannot boot Talos": 95}
    assert said["withoutKey"][0] == {"provider": "RunPod", "set": "RUNPOD_API_KEY", "publicPrices": False}
    assert said["errors"][1] == {"provider": "Lambda Labs", "message": "odd answer", "staleSeconds": None}


def test_names_are_one_a_line_and_nothing_else():
    assert (
        typed(FakeServices(*ROWS[:2]), "-o", "name").output
        == "webhook/vcg-l40s/cellar/on-demand\nvast/vcg-l40s/ewr/spot\n"
    )


def test_watching_looks_again_and_again_until_it_is_ended(capsys):
    async def watching():
        async with asyncio.timeout(2.5 * LOOK_EVERY):
            await _answer(
                services.offers((), "", ""),
                OfferQuestion(),
                OutputForm("name", 0, watch=True, fold=False, by_gpu=False),
            )

    services = FakeServices(*ROWS[:1])
    with pytest.raises(TimeoutError):
        run(watching())

    assert len(services.asked) == 3
    assert capsys.readouterr().out == "webhook/vcg-l40s/cellar/on-demand\n" * 3


def test_wide_leaves_nothing_out_however_narrow_the_terminal():
    lines = typed(FakeServices(*ROWS), "-o", "wide").output.splitlines()

    assert lines[0].split()[-1] == "NAME"
    assert lines[1].endswith("webhook/vcg-l40s/cellar/on-demand")


def test_wide_and_programs_say_what_a_marketplace_says_of_its_host():
    rows = (a_row(sku="a", open_ports=249, cuda="12.8", download_mbps=905), a_row(sku="b", cuda="12.4"))
    lines = typed(FakeServices(*rows), "-o", "wide").output.splitlines()
    items = json.loads(typed(FakeServices(*rows), "-o", "json").output)["items"]

    assert lines[0].split()[-4:] == ["PORTS", "CUDA", "DOWN", "NAME"]
    assert lines[1].split()[-4:-1] == ["249", "12.8", "905M"]
    assert lines[2].split()[-4:-1] == ["-", "12.4", "-"]
    assert [(each["openPorts"], each["cuda"], each["downloadMbps"]) for each in items] == [
        (249, "12.8", 905),
        (None, "12.4", None),
    ]


def test_wide_has_no_column_that_no_offer_fills():
    lines = typed(FakeServices(*ROWS), "-o", "wide").output.splitlines()

    assert not {"PORTS", "CUDA", "DOWN"} & set(lines[0].split())


def test_what_is_typed_is_what_is_asked():
    services = FakeServices(*ROWS)
    typed(
        services,
        *("--gpu", "rtx 4090", "--gpu", "A100", "--count", "2", "--max-price", "$1.50", "--region", "eu"),
        *("--spot", "--provider", "vast", "--join", "talos"),
    )
    typed(services)

    assert services.asked == [
        OfferQuestion(("RTX4090", "A100"), 2, 1_500_000, ("eu",), spot=True, providers=("vast",), talos=True),
        OfferQuestion(),
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--gpu", "RTX49"), "RTX4090"),
        (("--max-price", "cheap"), "not a number"),
        (("--max-price", "-1"), "not a price"),
        (("--count", "0"), "0"),
        (("--join", "ubuntu"), "talos"),
        (("-o", "xml"), "json"),
    ],
)
def test_wrong_use_ends_with_2_and_asks_no_provider(arguments, words):
    services = FakeServices(*ROWS)
    result = typed(services, *arguments)

    assert (result.exit_code, services.asked) == (2, [])
    assert words in result.output


def test_the_exit_code_tells_whether_anything_fits():
    assert typed(FakeServices(*ROWS)).exit_code == 0
    empty = typed(FakeServices(), "--max-price", "0.01")
    assert empty.exit_code == 1
    assert empty.output.startswith("No offer fits.\n")
    assert "Left out: too expensive (210)" in empty.output


@pytest.mark.parametrize(
    ("rows", "question", "command"),
    [
        ((), OfferQuestion(), "tgp check"),
        ((), OfferQuestion(("A100",), 2, 1_000_000, ("eu",)), "tgp offers --gpu A100 --count 2 --region eu"),
        ((), OfferQuestion(("A100",), 2, None, ("eu",), talos=True), "tgp offers --gpu A100 --join talos"),
        ((), OfferQuestion(("A100",), talos=True), "tgp offers --gpu A100"),
        ((), OfferQuestion(("A100",)), "tgp offers"),
        (ROWS[1:2], OfferQuestion(("RTX4090",), providers=("vast",)), "tgp offers --gpu RTX4090 --join talos"),
        (ROWS, OfferQuestion(), "tgp check"),
    ],
)
def test_the_next_command_loosens_what_left_nothing(rows, question, command):
    """Each suggestion asks for less than the last, so that following them comes to an end."""
    assert next_command(OfferAnswer(rows, OfferNotes()), question) == command


def test_what_cannot_join_is_counted_by_what_it_is():
    rows = (
        a_row(),
        a_row(provider="vast", boot=BootMode.CONTAINER),
        a_row(sku="vcg-a16", gpu="A16", no_driver="a slice of a card"),
        a_row(sku="vcg-a40", gpu="A40", no_driver="a slice of a card"),
    )
    told = typed(FakeServices(*rows)).output
    every = typed(FakeServices(*rows), "--join", "any", "-o", "wide").output

    assert "+ 1 container offer and 2 vGPU offers, which cannot join a Talos cluster" in " ".join(told.split())
    assert "A16" not in told
    assert "no (no GPU driver)" in every
