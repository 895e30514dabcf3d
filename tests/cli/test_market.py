"""`tgp sim` in one terminal, `tgp offers`, `tgp check` and the rest in another, as a new user would."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from ruamel.yaml import YAML

from tests.cli import program
from tests.cli.program import BOUND_S, Answer, a_market, environment


@pytest.fixture(scope="module")
def world() -> Iterator[str]:
    with a_market() as url:
        yield url


def tgp(*words: str, world: str = "") -> Answer:
    return program.answer(*words, TGP_WORLD=world)


def test_offers_of_every_provider_are_in_one_table(world):
    answer = tgp("offers", "-o", "json", world=world)
    items = json.loads(answer.stdout)["items"]

    assert answer.returncode == 0, answer.stderr
    assert {item["provider"] for item in items} == {
        "vast",
        "runpod",
        "lambdalabs",
        "paperspace",
        "vultr",
        "gcp",
        "simulated",
    }
    assert all(item["usdPerHour"] > 0 for item in items)


def test_a_question_narrows_and_says_what_it_left_out(world):
    answer = tgp("offers", "--gpu", "A100", "--count", "1", "--max-price", "2", "--join", "talos", world=world)

    assert answer.returncode == 0, answer.stderr
    assert "A100" in answer.stdout
    assert "vast" not in answer.stdout.partition("Left out")[0]
    assert "Left out:" in answer.stdout
    assert "cannot boot Talos" in answer.stdout


def test_nothing_that_fits_ends_with_one_and_a_next_step(world):
    answer = tgp("offers", "--gpu", "H100", "--max-price", "0.01", world=world)

    assert answer.returncode == 1
    assert "No offer fits." in answer.stdout
    assert answer.stdout.endswith("tgp offers --gpu H100\n")


def test_what_can_join_comes_first_and_the_rest_is_one_line(world):
    usual = tgp("offers", "--limit", "0", world=world).stdout
    every = tgp("offers", "--limit", "0", "--join", "any", world=world).stdout
    containers = tgp("offers", "--provider", "runpod", world=world).stdout

    assert "no (container)" not in usual
    assert re.search(
        r"\+ \d+ container offers and \d+ vGPU offers, which cannot join a Talos cluster: --join any", usual
    )
    assert "no (container)" in every
    assert "container offers" not in every
    assert "no (container)" in containers, "where nothing can join, that is shown"


def test_a_table_price_is_as_old_as_its_table(world):
    items = json.loads(tgp("offers", "-o", "json", "--provider", "gcp", world=world).stdout)["items"]

    assert {item["source"] for item in items} == {"table of 2026-08-22"}
    assert all(item["ageSeconds"] > 24 * 3600 for item in items)


def test_one_row_for_each_model(world):
    rows = json.loads(tgp("offers", "--group-by", "gpu", "--min-vram", "40", "-o", "json", world=world).stdout)["items"]
    table = tgp("offers", "--group-by", "gpu", "--min-vram", "40", world=world).stdout

    assert len(rows) == len({row["gpu"] for row in rows}) > 5
    assert all(row["gpuMemoryGiB"] >= 40 for row in rows)
    assert any(row["spotUsdPerGpuHour"] for row in rows)
    assert "L40S" in table
    assert "T4" not in table


def test_a_gpu_may_be_called_by_its_number_where_only_one_has_it(world):
    one = tgp("offers", "--gpu", "4090", "-o", "json", world=world)
    several = tgp("offers", "--gpu", "4000", world=world)

    assert {item["gpu"] for item in json.loads(one.stdout)["items"]} == {"RTX4090"}
    assert several.returncode == 2
    assert "'4000' could be A4000, M4000, P4000, RTX4000, RTXPRO4000: name one of them." in several.stderr


@pytest.mark.parametrize("words", [("offers",), ("check",), ("breakeven", "--gpu", "L4", "--hardware", "2500")])
def test_a_terminal_without_signs_gets_the_nearest_and_no_traceback(world, words):
    command = [sys.executable, *program.tgp(*words)]
    plain = environment(TGP_WORLD=world, PYTHONIOENCODING="ascii")
    answer, document = (
        subprocess.run([*command, *more], env=plain, capture_output=True, text=True, timeout=BOUND_S, check=False)
        for more in ((), ("-o", "json"))
    )

    assert "Traceback" not in answer.stderr
    assert answer.stdout.isascii()
    assert json.loads(document.stdout)


def test_a_limit_holds_for_every_output_and_a_name_is_one_word(world):
    names = tgp("offers", "-o", "name", "--limit", "3", world=world).stdout.splitlines()
    items = json.loads(tgp("offers", "-o", "json", "--limit", "3", world=world).stdout)["items"]

    assert len(names) == len(items) == 3
    assert not any(" " in name for name in names)


def test_an_unknown_region_is_reported_with_the_nearest(world):
    answer = tgp("offers", "--region", "us-wset", world=world)

    assert answer.returncode == 1
    assert "--region us-wset: unknown region" in answer.stdout
    assert "did you mean us-west" in answer.stdout


def test_an_unknown_gpu_is_refused_with_the_nearest_names(world):
    answer = tgp("offers", "--gpu", "RTX409", world=world)

    assert answer.returncode == 2
    assert "RTX4090" in answer.stderr


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_programs_read_every_answer(world, form):
    read = json.loads if form == "json" else YAML(typ="safe", pure=True).load
    few = ("offers", "--limit", "20")  # of hundreds: YAML is read and written slowly, and the rest says nothing else
    for words in (few, ("check",), ("sim", "fleet"), ("sim", "bill"), ("sim", "break")):
        answer = tgp(*words, "-o", form, world=world)
        assert read(answer.stdout)["apiVersion"] == "cli.tgp.io/v1", words


def test_check_says_what_each_key_is_good_for_and_ends_with_what_works(world):
    short = tgp("check", world=world)
    whole = tgp("check", "-o", "wide", world=world)
    one = tgp("check", "-o", "wide", "--provider", "vultr", world=world)

    assert "no: rents containers" in short.stdout
    assert "RunPod rents containers. They cannot boot Talos." in " ".join(whole.stdout.split())
    assert one.returncode == 0, one.stdout
    assert "valid (VULTR_API_KEY)" in one.stdout
    assert "Nothing was bought or spent." in one.stdout
    assert json.loads(tgp("sim", "fleet", "-o", "json", world=world).stdout)["machines"] == []


def test_what_shall_go_wrong_goes_wrong_and_is_said(world):
    assert (
        tgp("sim", "break", "html", "--provider", "vultr", "--verb", "offers", "--times", "9", world=world).returncode
        == 0
    )
    answer = tgp("offers", "--provider", "vultr", world=world)

    assert answer.returncode == 1
    assert "Vultr" in answer.stdout
    assert "unknown" in answer.stdout


def test_without_keys_it_names_the_variable_and_asks_no_provider():
    answer = tgp("check", "--provider", "lambda", "--provider", "paperspace")

    assert answer.returncode == 1
    assert "LAMBDA_LABS_API_KEY" in answer.stdout
    assert "PAPERSPACE_API_KEY" in answer.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("offers", "--provider", "aws"), "Unknown provider 'aws'"),
        (("offers", "--provider", "webhook"), "Machines you own are listed in a class"),
        (("offers", "--max-price", "-3"), "not a price"),
        (("offers", "--max-price", "NaN"), "not a number"),
        (("sim", "break", "earthquake"), "is not one of"),
    ],
)
def test_wrong_use_is_told_apart_and_names_the_option(words, said):
    answer = tgp(*words)

    assert answer.returncode == 2
    assert said in answer.stderr


def test_a_world_that_is_not_there_is_said_with_how_to_start_one():
    answer = tgp("offers", world="http://127.0.0.1:9")

    assert answer.returncode == 2
    assert "start one with `tgp sim`" in answer.stderr


def test_the_seeds_inputs_give_the_seeds_table():
    answer = tgp("breakeven", "--gpu", "RTX3090", "--hardware", "800", "--price", "0.35..0.45")

    assert answer.returncode == 0
    assert "1,800 \N{EN DASH} 2,300" in answer.stdout


def test_break_even_takes_live_prices_where_none_are_given(world):
    answer = tgp("breakeven", "--gpu", "RTX3090", "--hardware", "800", "-o", "json", world=world)

    assert answer.returncode == 0, answer.stderr
    assert "offers of" in json.loads(answer.stdout)["priceSource"]
