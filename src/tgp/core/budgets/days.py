"""What each budget used on each day (UTC): one ConfigMap a day in the operator's namespace, written once.

A day is a page of lines, one per budget that used something; a second page only where one is full, or where a budget's
account was not known when the first was written.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec

from tgp.core.budgets.account import UNPRICED, UNSURE, USD, USED, BudgetAccount
from tgp.core.budgets.archive import KeptAccount, read_account
from tgp.core.budgets.spans import seconds
from tgp.core.model.object_key import ObjectKey

DAYS_LABEL = "tgp.io/budget-days"  # its value is the month: 2026-11
NAME = "tgp-budget-days"
MOST_BYTES = 512 << 10  # of lines in one ConfigMap, which takes 1 MiB
DAY = 86_400


class BudgetDay(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Time in milli-GPU-seconds, money in micro-dollars an hour times seconds, as the account has them."""

    namespace: str
    name: str
    day: str  # 2026-11-17
    used: int
    unsure: int = 0
    unpriced: int = 0
    usd: int = 0


def day_of(key: ObjectKey, account: BudgetAccount, day: date, now: datetime) -> BudgetDay | None:
    """None: nothing was used. The account must know all of the day: at most 30 days after it."""
    begin = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())
    used, unsure, unpriced, usd = (
        account.between(series, begin, begin + DAY, seconds(now)) for series in (USED, UNSURE, UNPRICED, USD)
    )
    if not used:
        return None
    return BudgetDay(
        namespace=key.namespace, name=key.name, day=str(day), used=used, unsure=unsure, unpriced=unpriced, usd=usd
    )


def rows_of(
    day: date,
    now: datetime,
    accounts: Iterable[tuple[ObjectKey, str, BudgetAccount]],
    archived: Iterable[tuple[ObjectKey, KeptAccount]],
) -> list[BudgetDay]:
    """Of every budget that used something, by name. `accounts`: with their resource. `archived`: of deleted budgets.

    One of the same name and resource has gone on from what a deleted one left. Resources are added up.
    """
    live = {(key, resource): account for key, resource, account in accounts}
    used = [(key, day_of(key, account, day, now)) for (key, _), account in live.items()]
    for key, kept in archived:
        if (key, kept.resource) not in live and (account := read_account(kept)) is not None:
            used.append((key, day_of(key, account, day, datetime.fromtimestamp(kept.at, UTC))))
    rows: dict[ObjectKey, BudgetDay] = {}
    for key, row in used:
        if row is not None:
            rows[key] = _sum(rows[key], row) if key in rows else row
    return [rows[key] for key in sorted(rows)]


def _sum(one: BudgetDay, other: BudgetDay) -> BudgetDay:
    total = {name: getattr(one, name) + getattr(other, name) for name in ("used", "unsure", "unpriced", "usd")}
    return msgspec.structs.replace(one, **total)


def line_key(row: BudgetDay) -> str:
    return f"{row.namespace}.{row.name}"


def page_name(day: date, number: int = 1) -> str:
    return f"{NAME}-{day}" if number == 1 else f"{NAME}-{day}-{number}"


def pages(day: date, rows: Iterable[BudgetDay], first: int = 1) -> Iterator[tuple[str, dict[str, str]]]:
    """The name and the lines of each ConfigMap of a day, from this number on; at least one."""
    number, lines, size = first, dict[str, str](), 0
    for row in rows:
        key, line = line_key(row), msgspec.json.encode(row).decode()
        if lines and size + len(key) + len(line) > MOST_BYTES:
            yield page_name(day, number), lines
            number, lines, size = number + 1, {}, 0
        lines[key] = line
        size += len(key) + len(line)
    yield page_name(day, number), lines


def read_days(config_maps: Iterable[Mapping[str, Any]]) -> tuple[BudgetDay, ...]:
    """Every line that can be read, by budget and day."""
    found: dict[tuple[str, str, str], BudgetDay] = {}
    for config_map in config_maps:
        data = config_map.get("data")
        for line in data.values() if isinstance(data, dict) else ():
            try:
                row = msgspec.json.decode(line, type=BudgetDay)
            except (msgspec.DecodeError, TypeError):
                continue
            found[row.namespace, row.name, row.day] = row
    return tuple(found[key] for key in sorted(found))


def days_before(now: datetime, many: int) -> list[date]:
    """The whole days before this moment, the oldest first."""
    today = now.astimezone(UTC).date()
    return [today - timedelta(days=number) for number in range(many, 0, -1)]


def next_day(now: datetime) -> datetime:
    there = now.astimezone(UTC)
    return datetime(there.year, there.month, there.day, tzinfo=UTC) + timedelta(days=1)
