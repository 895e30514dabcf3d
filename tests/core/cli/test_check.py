"""`tgp check`: what works, what does not, and what follows, in words and in the exit code."""

import io
import json

import pytest
from click.testing import CliRunner
from rich.console import Console
from ruamel.yaml import YAML

from tests.core.cli.rows import a_check
from tgp.core.model.offer import BootMode
from tgp.interfaces.cli.check import check
from tgp.interfaces.cli.check_view import NO_CLUSTER, next_command, render
from tgp.ports.cloud import Right
from tgp.services.documents.checks import exit_code, summary
from tgp.services.market_answers import Elsewhere, KeyVerdict
from tgp.services.preflight_answers import CheckReport, ClusterFinding

GOOD = a_check()
RUNPOD = a_check(
    "runpod", title="RunPod", boot=(BootMode.CONTAINER,), elsewhere=(Elsewhere("Vultr", "L40S", 1_671_000),)
)
NO_KEY = a_check("gcp", title="Google Cloud", key=KeyVerdict.MISSING, offers=None)
REFUSED = a_check("lambdalabs", key=KeyVerdict.REFUSED, why="answered 401", offers=None, boot=(BootMode.TAKEOVER,))
UNPROVEN = a_check("lambdalabs", key=KeyVerdict.MISSING, offers=None, boot=(BootMode.TAKEOVER,))
PLUGIN = ClusterFinding("GPU device plugin", good=False, words="nvidia-device-plugin does not tolerate the taint.")


def drawn(*rows, findings=(), width: int = 80, wide: bool = True) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=1000, color_system=None).print(render(rows, findings, width, wide=wide))
    return out.getvalue().splitlines()


def said(*rows, findings=()) -> str:
    return " ".join(" ".join(drawn(*rows, findings=findings)).split())


class FakeServices:
    def __init__(self, *rows, findings=()) -> None:
        self.asked: list[tuple[object, ...]] = []
        self._report = CheckReport(rows, findings)

    async def check(self, *asked) -> CheckReport:
        self.asked.append(asked)
        return self._report


@pytest.mark.parametrize(
    ("rows", "findings", "code"),
    [
        ([GOOD], [], 0),
        ([GOOD, NO_KEY], [], 0),  # not set up is no failure
        ([GOOD, RUNPOD], [], 0),
        ([RUNPOD], [], 1),  # its key works, and no node can come of it
        ([NO_KEY], [], 1),
        ([], [], 1),
        ([GOOD, REFUSED], [], 1),
        ([GOOD, a_check(key=KeyVerdict.MISSING, asked_for=True)], [], 1),
        ([GOOD, a_check(key=KeyVerdict.UNTRIED)], [], 1),
        ([GOOD, a_check(can_buy=False)], [], 1),
        ([GOOD, a_check(offers=None)], [], 1),
        ([a_check(offers=0)], [], 0),  # nothing on sale is the market's state, not ours
        ([GOOD, a_check(rights=(Right("launch", held=False),))], [], 1),
        ([a_check(rights=(Right("launch", held=None), Right("list", held=True)))], [], 0),
        ([a_check("webhook", key=KeyVerdict.UNNEEDED, boot=(BootMode.POWER,))], [], 0),
        ([GOOD], [PLUGIN], 1),
        ([GOOD], [ClusterFinding("plugin", good=None, words="could not be told")], 0),
    ],
)
def test_the_exit_code_and_the_summary_agree(rows, findings, code):
    assert exit_code(rows, findings) == code
    assert summary(rows, findings).startswith("No problems.") == (code == 0)


def test_a_provider_of_containers_says_plainly_what_follows():
    text = said(RUNPOD)

    assert "RunPod rents containers. They cannot boot Talos." in text
    assert "whatever bootPolicy says" in text
    assert "On sale now: L40S at Vultr from $1.67 an hour." in text
    assert drawn(RUNPOD)[2] == "! RunPod"


@pytest.mark.parametrize(
    ("boot", "words"),
    [
        ((BootMode.NATIVE,), "its machines become nodes"),
        ((BootMode.TAKEOVER,), "not yet proven there"),
        ((BootMode.POWER,), "powered on and off"),
        ((BootMode.CONTAINER, BootMode.TAKEOVER), "Its containers cannot boot Talos"),
        ((), "unknown"),
    ],
)
def test_every_way_to_start_says_what_follows(boot, words):
    assert words in said(a_check(boot=boot))


def test_a_block_holds_all_that_was_learned_of_a_key():
    row = a_check(
        account="acme",
        rights=(
            Right("list", held=True),
            Right("launch", held=False, note="ask the owner"),
            Right("delete", held=None),
        ),
        balance_microusd=42_100_000,
        quota="8 GPUs",
        from_microusd=59_000,
        notes=("prices are from a table",),
    )

    assert drawn(row)[:14] == [
        NO_CLUSTER,
        "",
        "✗ Vultr",
        "    key       valid (VULTR_API_KEY)",
        "    account   acme",
        "    rights    may: list",
        "              may not: launch (ask the owner)",
        "              unknown: delete",
        "    balance   $42.10",
        "    quota     8 GPUs",
        "    offers    61 seen, a GPU-hour from $0.059",
        "    nodes     Boots Talos images: its machines become nodes.",
        "    note      prices are from a table",
        "",
    ]


def test_providers_without_a_key_take_one_line_and_the_cluster_has_its_own():
    lines = drawn(GOOD, NO_KEY, findings=(PLUGIN,))

    assert "Not set up, no API key. Google Cloud: GCP_API_KEY." in lines
    assert "✗ GPU device plugin nvidia-device-plugin does not tolerate the taint." in lines
    assert "Nothing was bought or spent." in lines


def test_a_provider_is_one_row_unless_more_is_asked_for():
    lines = drawn(GOOD, RUNPOD, REFUSED, wide=False, width=120)

    assert sum(line.startswith(("✓", "!", "✗")) for line in lines) == 3
    assert any("Vultr" in line and "yes: boots Talos images" in line for line in lines)
    assert any("RunPod" in line and "no: rents containers" in line for line in lines)
    assert any("refused (LAMBDALABS_API_KEY): answered 401" in line for line in lines)


def test_a_gap_stands_above_the_command_that_closes_it_as_a_shell_reads_it():
    gap = ClusterFinding(
        "class gpu", good=False, words="there is no Secret keys", command="kubectl create secret generic keys a b"
    )
    lines = drawn(GOOD, findings=(gap,), width=40)

    row = lines.index("✗ class gpu there is no Secret keys")
    told = " ".join(line.strip().removesuffix(" \\") for line in lines[row + 1 : lines.index("")])
    assert told == gap.command
    assert all(line.endswith(" \\") for line in lines[row + 1 : lines.index("") - 1])
    assert next_command([GOOD], [gap]) == gap.command


@pytest.mark.parametrize("width", [60, 80, 140])
def test_no_line_is_longer_than_the_terminal(width):
    row = a_check("runpod", boot=(BootMode.CONTAINER, BootMode.TAKEOVER), why="because " * 40, notes=("words " * 50,))

    assert max(map(len, drawn(row, RUNPOD, NO_KEY, findings=(PLUGIN,), width=width))) <= width


@pytest.mark.parametrize(
    ("rows", "command"),
    [
        ([GOOD], "tgp offers --join talos"),
        ([GOOD, REFUSED], "export LAMBDALABS_API_KEY=… && tgp check --provider lambdalabs"),
        ([GOOD, a_check("vast", can_buy=False)], "tgp check -o wide --provider vast"),
        ([RUNPOD, NO_KEY], "export GCP_API_KEY=… && tgp check"),
        ([UNPROVEN, NO_KEY], "export GCP_API_KEY=… && tgp check"),  # a native one before a takeover
        ([UNPROVEN], "export LAMBDALABS_API_KEY=… && tgp check"),
        ([RUNPOD], "tgp offers"),
    ],
)
def test_the_next_command_repairs_before_it_shops(rows, command):
    assert next_command(rows) == command


@pytest.mark.parametrize("how", ["json", "yaml"])
def test_programs_get_the_same_verdict(how):
    result = CliRunner().invoke(check, ["-o", how], obj=FakeServices(GOOD, RUNPOD, REFUSED, findings=(PLUGIN,)))
    report = json.loads(result.output) if how == "json" else YAML(typ="safe", pure=True).load(result.output)

    assert result.exit_code == report["exitCode"] == 1
    assert [(row["provider"], row["works"], row["canJoinTalos"]) for row in report["providers"]] == [
        ("vultr", True, True),
        ("runpod", True, False),
        ("lambdalabs", False, True),
    ]
    assert report["cluster"][0]["good"] is False


def test_the_command_passes_on_what_was_typed_and_ends_with_the_code():
    services = FakeServices(GOOD)
    result = CliRunner().invoke(check, ["--provider", "vultr", "--kubeconfig", "k", "--context", "c"], obj=services)

    assert result.exit_code == 0
    assert services.asked == [(("vultr",), "k", "c", "")]
    assert CliRunner().invoke(check, ["--spend"], obj=services).exit_code == 2
