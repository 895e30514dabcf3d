"""The spend record: one line for each machine that is gone, in ConfigMaps of the operator's namespace, by month.

A line is in the month of the machine's end, under `<uid>-<attempt>`, and is written once. A report of a month
divides the lines that cross its boundary: `by_month`.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import MachineToken, plain_uid

SPEND_LABEL = "tgp.io/spend"  # its value is the month: 2026-11
NAME = "tgp-spend"
MOST_BYTES = 128 << 10  # of lines in one ConfigMap: some 350 machines. It takes 1 MiB, but etcd rewrites it for each
YEARS = range(2000, 3000)  # plausible dates of a line; anything else is an error
MOST_MONTHS = 12 * len(YEARS)  # that one line is divided into
INSTANT = timedelta(microseconds=1)


class SpendEntry(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    rename={"node_class": "class", "began": "from", "ended": "to", "replaced_microusd": "replaced"},
):
    """What one machine cost, from the provider's confirmation until it was shown to be gone."""

    uid: str  # of the request
    attempt: int
    request: str  # namespace/name
    pool: str = ""  # namespace/name; empty: a user created the request
    node_class: str = ""
    provider: str = ""
    gpu: str = ""
    gpus: int = 0
    instance: str = ""  # the provider's id, to compare with its bill
    began: datetime
    ended: datetime
    microusd: int
    spot: bool = False
    lost: bool = False  # the provider took it, or it was gone; False: we terminated it
    # Of a machine that was bought because it is cheaper: what those it replaced would have cost since it was Ready.
    replaced_microusd: int | None = None  # None: it was bought for another reason

    @property
    def key(self) -> str:
        return f"{self.uid}-{self.attempt}"

    @property
    def month(self) -> str:
        return month_of(self.ended)

    @property
    def saved_microusd(self) -> int:
        """Negative: it cost more than what it replaced would have."""
        return self.replaced_microusd - self.microusd if self.replaced_microusd is not None else 0

    @property
    def namespace(self) -> str:
        return self.request.partition("/")[0]


class MachineEnd(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """That a machine is entered in the spend record, and when it was gone. Kept in memory by the token's parts."""

    key: ObjectKey
    resource_version: int
    at: datetime
    uid: str = ""
    deleting: bool = False


def end_key(token: MachineToken) -> ObjectKey:
    return ObjectKey("", f"{token.uid}-{token.attempt}")


def end_of(entry: SpendEntry, version: int) -> MachineEnd:
    return MachineEnd(
        key=ObjectKey("", f"{plain_uid(entry.uid)}-{entry.attempt}"), resource_version=version, at=entry.ended
    )


def month_of(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m")


def month_before(moment: datetime) -> str:
    return month_of(moment.astimezone(UTC).replace(day=1) - timedelta(days=1))


def page_name(month: str, number: int) -> str:
    """The first ConfigMap of a month has no number."""
    return f"{NAME}-{month}" if number == 1 else f"{NAME}-{month}-{number}"


def own_page_name(entry: SpendEntry) -> str:
    """Of an entry that found no room elsewhere."""
    return f"{NAME}-{entry.month}-{entry.key}"


def line_of(entry: SpendEntry) -> str:
    return msgspec.json.encode(entry).decode()


def read_line(key: str, line: object) -> SpendEntry | None:
    """None: not a line of tgp, or edited beyond recognition."""
    try:
        entry = msgspec.json.decode(line, type=SpendEntry) if isinstance(line, str) else None
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return entry if entry is not None and entry.key == key and _makes_sense(entry) else None


def has_room(data: Mapping[str, Any], entry: SpendEntry) -> bool:
    taken = sum(len(key) + len(str(line).encode(errors="replace")) for key, line in data.items())
    return taken + len(entry.key) + len(line_of(entry)) <= MOST_BYTES


def entries(config_maps: Iterable[Mapping[str, Any]]) -> tuple[SpendEntry, ...]:
    """Every line that can be read, each machine once, in the order of their ends. Read all months together.

    Of two lines about one machine the earlier counts: a reconcile that was repeated after the end of the month wrote
    the second.
    """
    found: dict[str, SpendEntry] = {}
    for entry in sorted((entry for _, entry in _lines(config_maps) if entry is not None), key=_by_end):
        found.setdefault(entry.key, entry)
    return tuple(found.values())


def unreadable(config_maps: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The keys of unreadable lines, such as edited ones. Reported, not counted."""
    return tuple(sorted({key for key, entry in _lines(config_maps) if entry is None}))


def by_month(entry: SpendEntry) -> dict[str, int]:
    """Its cost by month, in proportion to the time in each. The parts add up to the whole, to the micro-dollar."""
    length = (entry.ended - entry.began) // INSTANT
    parts: dict[str, int] = {}
    begin, assigned = entry.began, 0
    for _ in range(MOST_MONTHS):
        end = _next_month(begin)
        if end >= entry.ended:
            break
        upto = entry.microusd * ((end - entry.began) // INSTANT) // length
        parts[month_of(begin)] = upto - assigned
        begin, assigned = end, upto
    return parts | {month_of(begin): entry.microusd - assigned}


def _lines(config_maps: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, SpendEntry | None]]:
    for config_map in config_maps:
        data = config_map.get("data")
        for key, line in data.items() if isinstance(data, dict) else ():
            yield key, read_line(key, line)


def _by_end(entry: SpendEntry) -> tuple[datetime, str, int]:
    return entry.ended, entry.key, entry.microusd


def _makes_sense(entry: SpendEntry) -> bool:
    dated = entry.began.tzinfo is not None and entry.ended.tzinfo is not None
    if not dated or entry.began.year not in YEARS or entry.ended.year not in YEARS:
        return False
    return entry.began <= entry.ended and entry.microusd >= 0 and (entry.replaced_microusd or 0) >= 0


def _next_month(moment: datetime) -> datetime:
    there = moment.astimezone(UTC)
    year, month = divmod(there.year * 12 + there.month, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC)
