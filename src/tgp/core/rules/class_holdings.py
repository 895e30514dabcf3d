"""What a class holds and has cost, told from its requests: totals, and what their troubles mean for the class.

A quiet class is not written: what it has cost is counted when something else about it changes, with the moment.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from tgp.api.common import Condition, canonical_provider
from tgp.api.nodeclass import ClassLimits
from tgp.api.problem import Invalid
from tgp.api.request import Attempt, GPURequest
from tgp.api.values import microusd, rfc3339, usd
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.conditions import Verdict
from tgp.core.model.key import Key
from tgp.core.model.presence import Trouble
from tgp.core.model.typed import Typed
from tgp.core.rules.costs import class_of, hourly_of, priced, spent
from tgp.core.rules.limits import Holding, headroom_microusd, holding_of, presumed_of, shortage

OF_THE_HOLDINGS = frozenset({"LimitReached", "AccountChanged", "BootProven"})  # the conditions judged here
NAMED_MOST = 3  # requests in a sentence
LIMIT_REACHED = "LimitReached"  # why a request waits


class Stake(NamedTuple):
    """All that one request means for its class: what does not change it concerns no class."""

    key: Key
    holding: Holding | None  # None: it has no machine
    launched: bool  # a provider confirmed it
    hourly_microusd: int  # as billed
    told_microusd: int  # spent, as it was last told
    attempts: tuple[Attempt, ...]  # all that its cost follows from
    provider: str  # of its newest attempt; empty: there was none
    joined_at: datetime | None  # None: its machine was not seen to join
    changed_account: str  # why its machine is out of reach; empty: it is not
    limit: str  # the limit it waits for, in words; empty: it waits for none
    presumed: tuple[Holding, ...] = ()  # of earlier attempts, gone by lists alone: they count on for an hour


def stake_of(record: Typed[GPURequest]) -> Stake | None:
    """None: a restored copy. What its status tells of is another object's."""
    if copied(record):
        return None
    attempts = attempts_of(record)
    newest, attempt = (attempts[-1] if attempts else None), open_attempt(attempts)
    return Stake(
        record.key,
        holding_of(record.uid_text, attempt) if attempt is not None else None,
        attempt is not None and attempt.launched_at is not None,
        hourly_of(attempt) if attempt is not None else 0,
        _told(record, attempts),
        priced(attempts),
        canonical_provider(newest.offer.provider) if newest is not None and newest.offer is not None else "",
        _joined_at(record),
        _says(record, "ProviderReachable", "False", Trouble.ACCOUNT_CHANGED.value) if attempt is not None else "",
        _says(record, "Launched", "False", LIMIT_REACHED) if attempt is None else "",
        _presumed(record, attempts),
    )


@dataclass(frozen=True, slots=True)
class ClassHoldings:
    stakes: tuple[Stake, ...] = ()
    earlier_microusd: int = 0  # spent by requests that are gone

    @property
    def held(self) -> list[Holding]:
        """What counts against the limits: live, reserved and unknown."""
        own = [stake.holding for stake in self.stakes if stake.holding is not None]
        return [*own, *(each for stake in self.stakes for each in stake.presumed)]

    @property
    def live(self) -> list[Stake]:
        return [stake for stake in self.stakes if stake.launched]

    @property
    def told_microusd(self) -> int:
        """Spent by requests that are there, as they last told."""
        return sum(stake.told_microusd for stake in self.stakes)

    def present_microusd(self, now: datetime) -> int:
        """Spent by requests that are there, until now."""
        return sum(spent_at(stake, now) for stake in self.stakes)


def spent_at(stake: Stake, now: datetime) -> int:
    return max(spent(stake.attempts, now), stake.told_microusd)


def holdings_of(node_class: str, requests: Iterable[Typed[GPURequest]], earlier_microusd: int = 0) -> ClassHoldings:
    stakes = (stake_of(record) for record in requests if class_of(record) == node_class)
    return ClassHoldings(tuple(sorted(stake for stake in stakes if stake is not None)), earlier_microusd)


def earlier(holdings: ClassHoldings, held: Mapping[str, Any]) -> int:
    """What requests that are gone have spent, from a status that an earlier process wrote."""
    as_of = _moment(held.get("costAsOf"))  # None: a version that added up what requests had told
    present = holdings.present_microusd(as_of) if as_of is not None else holdings.told_microusd
    return max(_dollars(held.get("totalCost")) - present, 0)


def totals(holdings: ClassHoldings, held: Mapping[str, Any], now: datetime, *, anyway: bool = False) -> dict[str, Any]:
    """The totals in a class's status that differ from what stands there. What was spent is never less than before.

    It is counted until now when something else changes, or the status is written `anyway`: not for itself.
    """
    hourly = sum(stake.hourly_microusd for stake in holdings.live)
    told = _dollars(held.get("totalCost"))
    found: dict[str, Any] = {}
    if held.get("activeNodes", 0) != len(holdings.live):
        found["activeNodes"] = len(holdings.live)
    if _dollars(held.get("hourlyCost")) != hourly:
        found["hourlyCost"] = usd(hourly)
    if found or anyway or holdings.earlier_microusd + holdings.told_microusd > told:
        total = max(holdings.earlier_microusd + holdings.present_microusd(now), told)
        if found or total:
            found.update(totalCost=usd(total), costAsOf=rfc3339(now.replace(microsecond=0)))
    return found


def judge_holdings(
    holdings: ClassHoldings, limits: ClassLimits | None, boot_seen: Mapping[str, str], providers: Sequence[str]
) -> tuple[Verdict, ...]:
    """`boot_seen`: of the class's `providers` those that a machine was seen to join from, and when first."""
    found = (_limit(holdings, limits), _account(holdings), _boot(boot_seen, providers))
    return tuple(verdict for verdict in found if verdict is not None)


def boots_seen(holdings: ClassHoldings, held: Mapping[str, Any], providers: Iterable[str]) -> dict[str, str]:
    """By provider, as the class writes it: when a machine was first seen to join. What was seen once stays."""
    rows = held.get("providers")
    rows = rows if isinstance(rows, dict) else {}
    found: dict[str, str] = {}
    for name in providers:
        row = rows.get(name)
        told = row.get("bootSeenAt") if isinstance(row, dict) else None
        if isinstance(told, str) and told:
            found[name] = told
            continue
        joined = [
            stake.joined_at
            for stake in holdings.stakes
            if stake.provider == canonical_provider(name) and stake.joined_at is not None
        ]
        if joined:
            found[name] = rfc3339(min(joined))
    return found


def leaving(holdings: ClassHoldings) -> Verdict | None:
    """Of a class whose deletion was asked for: what it waits for. None: nothing keeps it."""
    waited_for = [stake for stake in holdings.stakes if stake.holding is not None]
    if not waited_for:
        return None
    number = _machines(len(waited_for))
    message = (
        f"deletion waits for {number} at ${_cost(waited_for)}/h: {_names(waited_for)}. Delete the requests, or wait"
    )
    return Verdict("Ready", False, "Deleting", f"{message}; nothing more is bought")


def _limit(holdings: ClassHoldings, limits: ClassLimits | None) -> Verdict | None:
    waiting = [stake for stake in holdings.stakes if stake.limit]
    if limits is None:
        return None
    held = holdings.held
    full = limits.max_nodes is not None and shortage(ClassLimits(max_nodes=limits.max_nodes), held, Holding("", 0))
    if not full and headroom_microusd(limits, held) == 0:
        full = f"limits.maxHourlyCost is ${limits.max_hourly_cost}/h, and all of it is held"
    if not full and not waiting:
        return None
    said = full or waiting[0].limit
    wait = f"; {_names(waiting)} {'waits' if len(waiting) == 1 else 'wait'}" if waiting else ""
    return Verdict("LimitReached", True, LIMIT_REACHED, f"{said}{wait}")


def _account(holdings: ClassHoldings) -> Verdict | None:
    lost = [stake for stake in holdings.stakes if stake.changed_account]
    if not lost:
        return None
    message = (
        f"{_machines(len(lost))} at ${_cost(lost)}/h cannot be found or given back: {_names(lost)}: "
        f"{lost[0].changed_account}. Put a key of the old account there until they are gone"
    )
    return Verdict("AccountChanged", True, Trouble.ACCOUNT_CHANGED.value, message)


def _boot(boot_seen: Mapping[str, str], providers: Sequence[str]) -> Verdict | None:
    if not boot_seen:
        return None
    unseen = [name for name in providers if name not in boot_seen]
    rest = f"; of {', '.join(unseen)} none yet" if unseen else ""
    return Verdict("BootProven", True, "Joined", f"machines of {', '.join(boot_seen)} were seen to join{rest}")


def _told(record: Typed[GPURequest], attempts: Sequence[Attempt]) -> int:
    told = _dollars(record.object.status.spent) if record.object is not None else 0
    return max(told, sum(_dollars(attempt.spent) for attempt in attempts if attempt.ended_at is not None))


def _presumed(record: Typed[GPURequest], attempts: Sequence[Attempt]) -> tuple[Holding, ...]:
    """While the request's own condition says so: nothing here moves with the clock."""
    said = _condition(record, "PresumedLost")
    if said is None or said.status != "True" or said.last_transition_time is None:
        return ()
    began = said.last_transition_time
    return tuple(holding for until, holding in presumed_of(attempts) if until > began)


def _joined_at(record: Typed[GPURequest]) -> datetime | None:
    if record.object is None:
        return None
    registered = _condition(record, "Registered")
    if registered is not None and registered.status == "True" and registered.last_transition_time is not None:
        return registered.last_transition_time
    return record.object.status.ready_at


def _says(record: Typed[GPURequest], name: str, status: str, reason: str) -> str:
    found = _condition(record, name)
    return (found.message or reason) if found is not None and (found.status, found.reason) == (status, reason) else ""


def _condition(record: Typed[GPURequest], name: str) -> Condition | None:
    conditions = record.object.status.conditions if record.object is not None else ()
    return next((each for each in conditions if each.type == name), None)


def _machines(number: int) -> str:
    return "1 machine" if number == 1 else f"{number} machines"


def _cost(stakes: Iterable[Stake]) -> str:
    return usd(sum(stake.holding.microusd for stake in stakes if stake.holding is not None))


def _names(stakes: Sequence[Stake]) -> str:
    more = len(stakes) - NAMED_MOST
    return ", ".join(str(stake.key) for stake in stakes[:NAMED_MOST]) + (f" and {more} more" if more > 0 else "")


def _moment(written: object) -> datetime | None:
    try:
        return msgspec.convert(written, datetime) if isinstance(written, str) else None
    except msgspec.ValidationError:
        return None


def _dollars(written: object) -> int:
    """In micro-dollars; zero where nothing that makes sense is written."""
    try:
        return microusd(written, "status") if isinstance(written, str) else 0
    except Invalid:
        return 0
