"""What a cluster holds and what it costs: every machine once, with the request it belongs to, if there is one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tgp.api.request import Attempt, GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt, provider_of
from tgp.core.model.cloud_account import resolved
from tgp.core.model.instance import Instance
from tgp.core.model.key import Key
from tgp.core.model.survey import Inspection, Survey
from tgp.core.model.token import Token, plain_uid, read_token
from tgp.core.model.typed import Typed
from tgp.core.rules.costs import cost_of, hourly_of

IN_FLIGHT = timedelta(minutes=5)  # an order may be under way for so long, its time-outs included
ENDED = frozenset({"Finished", "Failed"})


@dataclass(frozen=True, slots=True)
class Holding:
    """One machine that costs, or may cost."""

    token: str
    provider: str
    request: Key | None = None  # None: no request has its uid
    instance: Instance | None = None  # None: no list shows it
    till: str = ""  # where it is; empty: nowhere it could be asked for
    what: str = ""  # 1x RTX4090, or the provider's own name for it
    hourly_microusd: int | None = None  # None: nobody says
    spent_microusd: int = 0  # so far, by our own reckoning
    since: datetime | None = None

    @property
    def name(self) -> str:
        return str(self.request) if self.request is not None else self.token

    @property
    def place(self) -> tuple[str, str]:
        return self.provider, self.instance.id if self.instance is not None else self.token


def hourly(attempt: Attempt) -> int | None:
    """What it costs as billed, else as ordered. None: the record tells no price."""
    return hourly_of(attempt) or None


def what_of(attempt: Attempt) -> str:
    offer = attempt.offer
    if offer is None:
        return ""
    return f"{offer.gpu_count or 1}x {offer.gpu_type}" if offer.gpu_type else offer.instance_type


def expected(requests: Iterable[Typed[GPURequest]]) -> Iterator[tuple[Typed[GPURequest], Attempt]]:
    """Every attempt that may have a machine. A restored copy has none: what stands in its status is another's."""
    for record in requests:
        attempt = open_attempt(attempts_of(record))
        if attempt is not None and not copied(record):
            yield record, attempt


def waits(record: Typed[GPURequest]) -> bool:
    """Would it buy as soon as it may?"""
    if record.deleting or copied(record) or record.object is None:
        return False
    return open_attempt(attempts_of(record)) is None and record.object.status.phase not in ENDED


def lives(record: Typed[GPURequest]) -> bool:
    """Has it a machine, or would it get one? One that has ended stays as it is: deleted, it could be written anew."""
    phase = record.object.status.phase if record.object is not None else None
    return phase not in ENDED or open_attempt(attempts_of(record)) is not None


def unsettled(survey: Survey) -> Iterator[Typed[GPURequest]]:
    """Requests that reserved a machine so lately that no list can prove its absence."""
    for record, attempt in expected(survey.requests):
        inspection = inspection_of(survey, attempt)
        lag = inspection.lag if inspection is not None else timedelta()
        since = attempt.reserved_at
        if not _launched(attempt) and since is not None and survey.now - since < lag + IN_FLIGHT:
            yield record


def listed(survey: Survey) -> Iterator[tuple[Inspection, Instance, Token]]:
    """Every machine of this cluster that some provider lists, once: two keys of one account show the same ones."""
    seen: set[tuple[str, str, str]] = set()
    for inspection in survey.inspections:
        for instance in inspection.machines if inspection.asked else ():
            token = read_token(instance.token)
            place = inspection.till.provider, inspection.account, instance.id
            if token is not None and token.cluster == survey.cluster and place not in seen:
                seen.add(place)
                yield inspection, instance, token


def holdings(survey: Survey) -> tuple[Holding, ...]:
    """By name: what the lists show, and what requests have launched where nobody could be asked."""
    owners = {plain_uid(record.uid_text): record for record in survey.requests}
    attempts = {attempt.token: attempt for _, attempt in expected(survey.requests)}
    found = [
        _of_machine(one, instance, owners.get(token.uid), attempts.get(instance.token), survey.now)
        for one, instance, token in listed(survey)
    ]
    seen = {holding.token for holding in found}
    for record, attempt in expected(survey.requests):
        if attempt.token not in seen and not _shown_absent(survey, attempt) and _launched(attempt):
            found.append(_of_record(survey, record, attempt))
    return tuple(sorted(found, key=lambda holding: (holding.request is None, holding.name, holding.place)))


def hourly_total(held: Iterable[Holding]) -> int:
    """Of those whose price is known."""
    return sum(holding.hourly_microusd or 0 for holding in held)


def _launched(attempt: Attempt) -> bool:
    return bool(attempt.launched_at or attempt.instance_id)


def _shown_absent(survey: Survey, attempt: Attempt) -> bool:
    """Not in a complete list of its own account."""
    inspection = inspection_of(survey, attempt)
    return inspection is not None and inspection.asked and same_account(survey, inspection, attempt)


def inspection_of(survey: Survey, attempt: Attempt) -> Inspection | None:
    account = resolved(survey.accounts, attempt)
    return next((one for one in survey.inspections if account is not None and one.till.name == account.till.name), None)


def same_account(survey: Survey, inspection: Inspection, attempt: Attempt) -> bool:
    account = resolved(survey.accounts, attempt)
    return account is not None and account.includes(inspection.account)


def _of_machine(
    inspection: Inspection,
    instance: Instance,
    owner: Typed[GPURequest] | None,
    attempt: Attempt | None,
    now: datetime,
) -> Holding:
    told = instance.hourly_microusd
    hour = told if told is not None or attempt is None else hourly(attempt)
    since = instance.created_at or (attempt.launched_at if attempt is not None else None)
    return Holding(
        instance.token,
        inspection.till.provider,
        owner.key if owner is not None else None,
        instance,
        inspection.till.name,
        (what_of(attempt) if attempt is not None else "") or instance.sku,
        hour,
        cost_of(attempt, now) if attempt is not None else _since(hour, since, now),
        since,
    )


def _of_record(survey: Survey, record: Typed[GPURequest], attempt: Attempt) -> Holding:
    account = resolved(survey.accounts, attempt)
    return Holding(
        attempt.token,
        provider_of(attempt),
        record.key,
        None,
        account.till.name if account is not None else "",
        what_of(attempt),
        hourly(attempt),
        cost_of(attempt, survey.now),
        attempt.launched_at,
    )


def _since(hour: int | None, since: datetime | None, now: datetime) -> int:
    if hour is None or since is None or now <= since:
        return 0
    return int(hour * (now - since).total_seconds() / 3600)
