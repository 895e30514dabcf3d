"""The document OfferList: written by `tgp offers -o json` and by the operator's HTTP API, and read back from there."""

from collections.abc import Mapping, Sequence
from typing import Any

from tgp.core.model.offer import BootMode
from tgp.core.model.prices import MICRO
from tgp.interfaces.documents import API_VERSION
from tgp.interfaces.documents.market import OfferList, OfferListItem
from tgp.interfaces.terminal.snapshot import plain
from tgp.services.market_documents import NO_DRIVER, STOCK, NoKey, OfferAnswer, OfferItem, OfferNotes, ProviderTrouble

KIND = "OfferList"
SPOT, TABLE_OF = "spot", "table of "


class NotAnOfferList(Exception):
    """The text says what is missing."""


def offer_list(rows: Sequence[OfferItem], notes: OfferNotes) -> OfferList:
    return {
        "apiVersion": API_VERSION,
        "kind": "OfferList",
        "items": [_item(row) for row in rows],
        "rejected": _counts(notes.rejected),
        "dropped": _counts(notes.dropped),
        "withoutKey": [
            {"provider": one.title, "set": one.variable, "publicPrices": one.public} for one in notes.no_key
        ],
        "errors": [
            {"provider": one.title, "message": plain(one.why), "staleSeconds": one.stale_seconds}
            for one in notes.troubles
        ],
        "advice": list(notes.advice),
    }


def counted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """The most frequent first."""
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))


def read_offer_list(document: Any) -> OfferAnswer:
    """What `offer_list` wrote, here or in an operator of a near version. Raises NotAnOfferList."""
    try:
        if document["kind"] != KIND:
            raise NotAnOfferList(f"expected {KIND}, got {document['kind']!r}")
        notes = OfferNotes(
            rejected=dict(document["rejected"]),
            dropped=dict(document["dropped"]),
            no_key=tuple(NoKey(one["provider"], one["set"], one["publicPrices"]) for one in document["withoutKey"]),
            troubles=tuple(
                ProviderTrouble(one["provider"], one["message"], one["staleSeconds"]) for one in document["errors"]
            ),
            advice=tuple(document["advice"]),
        )
        return OfferAnswer(tuple(_row(item) for item in document["items"]), notes)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise NotAnOfferList(f"{KIND}: {type(error).__name__} {error}") from error


def _counts(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(why): count for why, count in counted(counts)}


def _item(row: OfferItem) -> OfferListItem:
    return {
        "name": row.name,
        "provider": row.provider,
        "gpu": row.gpu,
        "gpuCount": row.count,
        "gpuMemoryGiB": row.gpu_memory_gib,
        "vcpus": row.vcpus or None,
        "memoryGiB": row.memory_gib or None,
        "region": row.region,
        "place": row.place,
        "kind": row.kind,
        "virtualMachine": row.virtual,
        "usdPerHour": row.hourly_microusd / MICRO,
        "usdPerGpuHour": row.per_gpu_microusd / MICRO,
        "ageSeconds": round(row.age_seconds, 1),
        "availability": STOCK[row.stock],
        "left": row.left,
        "failedSecondsAgo": None if row.failed_seconds_ago is None else round(row.failed_seconds_ago, 1),
        "bootMode": str(row.boot),
        "join": row.join,
        "source": row.source,
        "openPorts": row.open_ports or None,
        "cuda": row.cuda or None,
        "downloadMbps": row.download_mbps or None,
    }


def _row(item: Mapping[str, Any]) -> OfferItem:
    return OfferItem(
        name=item["name"],
        provider=item["provider"],
        gpu=item["gpu"],
        count=item["gpuCount"],
        gpu_memory_gib=item["gpuMemoryGiB"],
        vcpus=item["vcpus"] or 0,
        memory_gib=item["memoryGiB"] or 0,
        region=item["region"],
        place=item["place"],
        spot=item["kind"] == SPOT,
        hourly_microusd=round(item["usdPerHour"] * MICRO),
        per_gpu_microusd=round(item["usdPerGpuHour"] * MICRO),
        age_seconds=item["ageSeconds"],
        stock={text: stock for stock, text in STOCK.items()}[item["availability"]],
        boot=BootMode(item["bootMode"]),
        failed_seconds_ago=item["failedSecondsAgo"],
        priced_on=item["source"].removeprefix(TABLE_OF) if item["source"].startswith(TABLE_OF) else "",
        left=item["left"],
        no_driver=NO_DRIVER if item["join"] == NO_DRIVER else "",
        virtual=item["virtualMachine"],
        open_ports=item.get("openPorts") or 0,  # an earlier operator does not say these three
        cuda=item.get("cuda") or "",
        download_mbps=item.get("downloadMbps") or 0,
    )
