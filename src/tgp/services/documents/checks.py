"""What `tgp check` found of providers and of the cluster: summary, exit code and document."""

from collections.abc import Iterator, Sequence
from typing import Literal, TypedDict

from tgp.core.model.money import dollars
from tgp.core.model.offer import BootMode
from tgp.core.model.text import plain
from tgp.services.documents import API_VERSION, ApiVersion, usd
from tgp.services.market_answers import CheckRow, Elsewhere
from tgp.services.preflight_answers import ClusterFinding


class KeyRightItem(TypedDict):
    name: str
    granted: bool | None
    note: str


class ProviderCheckItem(TypedDict):
    provider: str
    works: bool | None
    key: str
    keyVariable: str
    message: str
    account: str
    rights: list[KeyRightItem]
    balanceUsd: float | None
    quota: str
    canBuy: bool | None
    offers: int | None
    cheapestUsdPerGpuHour: float | None
    bootModes: list[str]
    canJoinTalos: bool
    whatFollows: str
    notes: list[str]


class ClusterCheckItem(TypedDict):
    title: str
    good: bool | None
    message: str
    command: str


class CheckReportDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["CheckReport"]
    providers: list[ProviderCheckItem]
    cluster: list[ClusterCheckItem]
    summary: str
    exitCode: int


ALL_WELL = 0
NOT_WELL = 1  # 2 is for wrong use, as in every command


def exit_code(rows: Sequence[CheckRow], findings: Sequence[ClusterFinding] = ()) -> int:
    """0: everything that is set up works, and at least one provider can supply nodes. 1: anything else.

    A provider without an API key is not set up. That is no failure, unless the provider was named.
    """
    verdicts = [row.works for row in rows]
    if False in verdicts or any(finding.good is False for finding in findings):
        return NOT_WELL
    return ALL_WELL if any(row.works and row.joins for row in rows) else NOT_WELL


def check_report(rows: Sequence[CheckRow], findings: Sequence[ClusterFinding]) -> CheckReportDocument:
    return CheckReportDocument(
        apiVersion=API_VERSION,
        kind="CheckReport",
        providers=[_provider_item(row) for row in rows],
        cluster=[
            {"title": one.title, "good": one.good, "message": plain(one.words), "command": plain(one.command)}
            for one in findings
        ],
        summary=summary(rows, findings),
        exitCode=exit_code(rows, findings),
    )


def summary(rows: Sequence[CheckRow], findings: Sequence[ClusterFinding] = ()) -> str:
    """One sentence that agrees with the exit code."""
    set_up = [row for row in rows if row.works is not None]
    gaps = sum(finding.good is False for finding in findings)
    broken = [row.title for row in set_up if row.works is False]
    if gaps or broken:
        parts = [f"{gaps} {'gap' if gaps == 1 else 'gaps'} in the cluster"] if gaps else []
        parts += [f"does not work: {', '.join(broken)}"] if broken else []
        text = "; ".join(parts)
        return f"{text[0].upper()}{text[1:]}."
    if not set_up:
        return "No provider is set up: no API key was found."
    if not any(row.joins for row in set_up):
        return "The API keys work, but none of these providers has machines that can join a Talos cluster."
    joining = [row.title for row in set_up if row.joins]
    return f"No problems. Nodes can come from {', '.join(joining)}."


def what_follows(row: CheckRow) -> str:
    """By the boot mode of its machines: can they become nodes, and what does tgp do?"""
    modes = row.boot
    if not modes:
        return "The boot mode of its machines is unknown."
    if not row.joins:
        return " ".join((_containers(row.title), *_elsewhere(row.elsewhere)))
    sentences = [_FOLLOWS[mode] for mode in (BootMode.NATIVE, BootMode.TAKEOVER, BootMode.POWER) if mode in modes]
    if BootMode.CONTAINER in modes:
        sentences.append("Its containers cannot boot Talos and are not bought.")
    return " ".join(sentences)


_FOLLOWS = {
    BootMode.NATIVE: "Boots Talos images: its machines become nodes.",
    BootMode.TAKEOVER: "Boots its own Linux, over which Talos is written. This is not yet proven there: a machine that "
    "does not join in time is terminated, and after two such machines the provider is not used for a while.",
    BootMode.POWER: "Machines you own: they are nodes already, and are powered on and off.",
}


def _containers(title: str) -> str:
    return (
        f"{title} rents containers. They cannot boot Talos. Its offers are listed and priced, but none is bought for a "
        "Talos cluster, whatever bootPolicy says. For nodes use a provider that boots Talos images: "
        "tgp offers --join talos."
    )


def _elsewhere(found: Sequence[Elsewhere]) -> Iterator[str]:
    if found:
        each = ", ".join(f"{one.gpu} at {one.title} from {dollars(one.per_gpu_microusd)} an hour" for one in found)
        yield f"On sale now: {each}."


def _provider_item(row: CheckRow) -> ProviderCheckItem:
    return {
        "provider": row.provider,
        "works": row.works,
        "key": str(row.key),
        "keyVariable": row.variable,
        "message": plain(row.why),
        "account": row.account,
        "rights": [{"name": right.name, "granted": right.held, "note": plain(right.note)} for right in row.rights],
        "balanceUsd": usd(row.balance_microusd),
        "quota": plain(row.quota),
        "canBuy": row.can_buy,
        "offers": row.offers,
        "cheapestUsdPerGpuHour": usd(row.from_microusd),
        "bootModes": [str(mode) for mode in row.boot],
        "canJoinTalos": row.joins,
        "whatFollows": what_follows(row),
        "notes": [plain(note) for note in row.notes],
    }
