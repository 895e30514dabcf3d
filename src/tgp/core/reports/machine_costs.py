"""The machines of a cluster and what they cost: every machine once, with its request, if there is one."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from tgp.api.request import Attempt, GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt, provider_of
from tgp.core.model.cloud_account import resolved
from tgp.core.model.cluster_inventory import AccountInventory, ClusterInventory
from tgp.core.model.costs import cost_of, hourly_of
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import MachineToken, plain_uid, read_token

IN_FLIGHT = timedelta(minutes=5)  # an order may be under way for so long, its time-outs included
ENDED = frozenset({"Finished", "Failed"})


@dataclass(frozen=True, slots=True)
class MachineCost:
    """One machine that costs, or may cost."""

    token: str
    provider: str
    request: ObjectKey | None = None  # None: no request has its uid
    instance: Instance | None = None  # None: no list shows it
    access: str = ""  # where it is; empty: no account can be asked
    what: str = ""  # 1x RTX4090, or the provider's own name for it
    hourly_microusd: int | None = None  # None: unknown
    spent_microusd: int = 0  # so far, by our own calculation
    since: datetime | None = None

    @property
    def name(self) -> str:
        return str(self.request) if self.request is not None else self.token

    @property
    def place(self) -> tuple[str, str]:
        return self.provider, self.instance.id if self.instance is not None else self.token


def hourly(attempt: Attempt) -> int | None:
    """What it costs as billed, else as ordered. None: the record has no price."""
    return hourly_of(attempt) or None


def what_of(attempt: Attempt) -> str:
    offer = attempt.offer
    if offer is None:
        return ""
    return f"{offer.gpu_count or 1}x {offer.gpu_type}" if offer.gpu_type else offer.instance_type


def expected(requests: Iterable[KubeObject[GPURequest]]) -> Iterator[tuple[KubeObject[GPURequest], Attempt]]:
    """Every attempt that may have a machine. A restored copy has none: its status names another's machine."""
    for record in requests:
        attempt = open_attempt(attempts_of(record))
        if attempt is not None and not copied(record):
            yield record, attempt


def waits(record: KubeObject[GPURequest]) -> bool:
    """Would it buy as soon as it is allowed to?"""
    if record.deleting or copied(record) or record.value is None:
        return False
    return open_attempt(attempts_of(record)) is None and record.value.status.phase not in ENDED


def lives(record: KubeObject[GPURequest]) -> bool:
    """Has it a machine, or would it get one? One that has ended is kept: deleted, it could be created again."""
    phase = record.value.status.phase if record.value is not None else None
    return phase not in ENDED or open_attempt(attempts_of(record)) is not None


def unsettled(inventory: ClusterInventory) -> Iterator[KubeObject[GPURequest]]:
    """Requests that reserved a machine so recently that no list can prove its absence."""
    for record, attempt in expected(inventory.requests):
        inspection = account_of_machine(inventory, attempt)
        lag = inspection.lag if inspection is not None else timedelta()
        since = attempt.reserved_at
        if not _launched(attempt) and since is not None and inventory.now - since < lag + IN_FLIGHT:
            yield record


def listed(inventory: ClusterInventory) -> Iterator[tuple[AccountInventory, Instance, MachineToken]]:
    """Every machine of this cluster that some provider lists, once: two keys of one account show the same ones."""
    seen: set[tuple[str, str, str]] = set()
    for inspection in inventory.inspections:
        for instance in inspection.machines if inspection.asked else ():
            token = read_token(instance.token)
            place = inspection.access.provider, inspection.account, instance.id
            if token is not None and token.cluster == inventory.cluster and place not in seen:
                seen.add(place)
                yield inspection, instance, token


def machine_costs(inventory: ClusterInventory) -> tuple[MachineCost, ...]:
    """By name: what the lists show, and what requests have launched where the provider could not be asked."""
    owners = {plain_uid(record.uid_text): record for record in inventory.requests}
    attempts = {attempt.token: attempt for _, attempt in expected(inventory.requests)}
    found = [
        _of_machine(one, instance, owners.get(token.uid), attempts.get(instance.token), inventory.now)
        for one, instance, token in listed(inventory)
    ]
    seen = {cost.token for cost in found}
    for record, attempt in expected(inventory.requests):
        if attempt.token not in seen and not _shown_absent(inventory, attempt) and _launched(attempt):
            found.append(_of_record(inventory, record, attempt))
    return tuple(sorted(found, key=lambda cost: (cost.request is None, cost.name, cost.place)))


def hourly_total(held: Iterable[MachineCost]) -> int:
    """Of those whose price is known."""
    return sum(cost.hourly_microusd or 0 for cost in held)


def _launched(attempt: Attempt) -> bool:
    return bool(attempt.launched_at or attempt.instance_id)


def _shown_absent(inventory: ClusterInventory, attempt: Attempt) -> bool:
    """Not in a complete list of its own account."""
    inspection = account_of_machine(inventory, attempt)
    return inspection is not None and inspection.asked and same_account(inventory, inspection, attempt)


def account_of_machine(inventory: ClusterInventory, attempt: Attempt) -> AccountInventory | None:
    account = resolved(inventory.accounts, attempt)
    return next(
        (one for one in inventory.inspections if account is not None and one.access.name == account.access.name), None
    )


def same_account(inventory: ClusterInventory, inspection: AccountInventory, attempt: Attempt) -> bool:
    account = resolved(inventory.accounts, attempt)
    return account is not None and account.includes(inspection.account)


def _of_machine(
    inspection: AccountInventory,
    instance: Instance,
    owner: KubeObject[GPURequest] | None,
    attempt: Attempt | None,
    now: datetime,
) -> MachineCost:
    listed_price = instance.hourly_microusd
    hour = listed_price if listed_price is not None or attempt is None else hourly(attempt)
    since = instance.created_at or (attempt.launched_at if attempt is not None else None)
    return MachineCost(
        instance.token,
        inspection.access.provider,
        owner.key if owner is not None else None,
        instance,
        inspection.access.name,
        (what_of(attempt) if attempt is not None else "") or instance.sku,
        hour,
        cost_of(attempt, now) if attempt is not None else _since(hour, since, now),
        since,
    )


def _of_record(inventory: ClusterInventory, record: KubeObject[GPURequest], attempt: Attempt) -> MachineCost:
    account = resolved(inventory.accounts, attempt)
    return MachineCost(
        attempt.token,
        provider_of(attempt),
        record.key,
        None,
        account.access.name if account is not None else "",
        what_of(attempt),
        hourly(attempt),
        cost_of(attempt, inventory.now),
        attempt.launched_at,
    )


def _since(hour: int | None, since: datetime | None, now: datetime) -> int:
    if hour is None or since is None or now <= since:
        return 0
    return int(hour * (now - since).total_seconds() / 3600)
