"""Differences between a cluster's objects and what its providers list, what each costs, and what fixes it.

Unknown is not none: where a provider could not be asked, nothing is concluded about its machines.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from tgp.api.common import KEY_IS_A_FILE, OWNED_PROVIDER, Condition
from tgp.api.request import Attempt, GPURequest
from tgp.api.values import go_duration
from tgp.core.inventory.orphans import Orphan, RequestOwner, bears_our_mark, orphans, owners, too_many
from tgp.core.model.attempts import attempts_of, copied
from tgp.core.model.class_secrets import how_to_supply
from tgp.core.model.cloud_account import TABLE, resolved
from tgp.core.model.cluster_inventory import AccountInventory, ClusterInventory, MissingCredential
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.pod import COUNTED
from tgp.core.model.presence import AccountProblem
from tgp.core.model.token import MachineToken, plain_uid, read_token
from tgp.core.reports.machine_costs import account_of_machine, expected, hourly, listed, same_account
from tgp.core.requests.readoption import unrecorded

PROVISIONED = "tgp.io/provisioned"
REQUEST_UID = "tgp.io/request-uid"
PROVIDER_ID = "tgp://"
SWEEP_HALTED, ORPHAN_STAYS = "SweepHalted", "OrphanTerminationFailing"
HELD_FOR = timedelta(minutes=1)
YOUNG = timedelta(minutes=2)  # beside the listing lag: objects and lists of one minute may differ
ENDS_WITHIN = timedelta(minutes=15)  # after the drain; later it is reported
NAMESPACED = "-n {0.namespace} {0.name}"


class DoctorProblem(StrEnum):
    ORPHAN = "Orphan"  # a machine of this cluster whose request does not exist
    UNCLAIMED = "UnclaimedInstance"  # of an older attempt, a second one, or of an ended request
    NOT_ON_RECORD = "NotOnRecord"  # a machine whose request lost its status: the operator adopts it again
    NOT_LISTED = "MachineNotListed"
    ACCOUNT_CHANGED = "AccountChanged"
    UNASKED = "ProviderNotAsked"
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - a reason, not a secret
    LEFTOVER_NODE = "LeftoverNode"
    NOT_ENDING = "TerminationFailing"
    SWEEP_HALTED = "SweepHalted"
    ORPHAN_STAYS = "OrphanTerminationFailing"  # the operator requests its termination, without success
    RESTORED = "RestoredCopy"
    UNREADABLE = "Unreadable"
    POD_HELD = "PodHeld"  # it has ended, and no operator counts it
    HELD = "PurchasesPaused"
    SUSPENDED = "Suspended"
    CANNOT_TELL = "OwnedMachineSilent"


NOTES = frozenset(
    {DoctorProblem.HELD, DoctorProblem.SUSPENDED, DoctorProblem.RESTORED, DoctorProblem.CANNOT_TELL}
)  # wanted, or harmless
UNKNOWNS = frozenset(
    {DoctorProblem.UNASKED, DoctorProblem.SECRET_MISSING, DoctorProblem.ACCOUNT_CHANGED}
)  # the state of their machines is unknown
ORPHAN_PROBLEMS = (
    frozenset(
        {
            DoctorProblem.ORPHAN,
            DoctorProblem.UNCLAIMED,
            DoctorProblem.NOT_ON_RECORD,
            DoctorProblem.SWEEP_HALTED,
            DoctorProblem.ORPHAN_STAYS,
        }
    )
    | UNKNOWNS
)  # what --orphans is about


@dataclass(frozen=True, slots=True)
class EndMachine:
    """The fix: terminate this machine, in this account."""

    access: str
    instance: Instance


@dataclass(frozen=True, slots=True)
class DeleteNode:
    node: Node


Cure: TypeAlias = EndMachine | DeleteNode


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    problem: DoctorProblem
    about: str
    words: str
    fix: str = ""  # a command; empty: nothing to do by hand
    hourly_microusd: int | None = 0  # what it costs while it lasts; None: unknown
    since: datetime | None = None
    cure: Cure | None = None  # what `--fix` would do; None: no command may do it

    @property
    def note(self) -> bool:
        return self.problem in NOTES

    @property
    def unknown(self) -> bool:
        return self.problem in UNKNOWNS


def findings(inventory: ClusterInventory, *, only_orphans: bool = False) -> tuple[DoctorFinding, ...]:
    """What costs first, then what is unknown, then the rest; notes last."""
    found = [
        *_machines(inventory),
        *_requests(inventory),
        *_pools(inventory),
        *_inspections(inventory),
        *_accounts(inventory),
        *_halts(inventory),
        *_classes(inventory),
        *_nodes(inventory),
        *_held_pods(inventory),
        *_paused(inventory),
    ]
    if only_orphans:
        found = [one for one in found if one.problem in ORPHAN_PROBLEMS]
    return tuple(sorted(found, key=lambda one: (one.note, list(DoctorProblem).index(one.problem), one.about)))


# -- machines --------------------------------------------------------------------------------------------------------


def _machines(inventory: ClusterInventory) -> Iterator[DoctorFinding]:
    owned = _owners(inventory)
    records = {plain_uid(record.uid_text): record for record in inventory.requests}
    where = {instance.token + instance.id: inspection for inspection, instance, _ in listed(inventory)}
    for orphan in orphans((instance for _, instance, _ in listed(inventory)), owned, inventory.cluster):
        inspection = where[orphan.instance.token + orphan.instance.id]
        token = read_token(orphan.instance.token)
        assert token is not None, "only a machine with our token can be an orphan"
        record = records.get(token.uid)
        yield _orphan(inspection, orphan, inventory) if record is None else _unclaimed(inspection, orphan, record)
    lost = _unrecorded(inventory)
    for inspection, instance, token in listed(inventory):
        if lost.get(token.uid) is instance:
            yield _not_on_record(inspection, instance, records[token.uid])


def _owners(inventory: ClusterInventory) -> dict[str, RequestOwner]:
    lost = _unrecorded(inventory)
    return owners(inventory.requests, lambda record: lost.get(plain_uid(record.uid_text)))


def _unrecorded(inventory: ClusterInventory) -> dict[str, Instance]:
    """By uid: the machine that its request adopts again."""
    own: dict[str, list[Instance]] = {}
    highest: dict[str, int] = {}
    for _, instance, token in listed(inventory):
        own.setdefault(token.uid, []).append(instance)
        highest[token.uid] = max(highest.get(token.uid, 0), token.attempt)
    named = {plain_uid(record.uid_text): record for record in inventory.requests}
    found = ((uid, unrecorded(named[uid], own[uid], highest[uid])) for uid in own if uid in named)
    return {uid: instance for uid, instance in found if instance is not None}


def _orphan(inspection: AccountInventory, orphan: Orphan, inventory: ClusterInventory) -> DoctorFinding:
    instance = orphan.instance
    age = f"{spoken_age(instance.created_at, inventory.now)} old" if instance.created_at is not None else ""
    return DoctorFinding(
        DoctorProblem.ORPHAN,
        f"{inspection.access.provider}/{instance.id}",
        f"{_machine(inspection, instance, age)} carries a token of this cluster ({instance.token}), but {orphan.why}.",
        "tgp doctor --orphans --fix",
        instance.hourly_microusd,
        instance.created_at,
        EndMachine(inspection.access.name, instance),
    )


def _unclaimed(inspection: AccountInventory, orphan: Orphan, record: KubeObject[GPURequest]) -> DoctorFinding:
    """Requests are listed after the machines: what its request does not want then, it will not want later."""
    instance = orphan.instance
    return DoctorFinding(
        DoctorProblem.UNCLAIMED,
        f"{inspection.access.provider}/{instance.id}",
        f"{_machine(inspection, instance)} is not used by request {record.key}: {orphan.why}. "
        "The operator terminates the machine within minutes.",
        "tgp doctor --orphans --fix",
        instance.hourly_microusd,
        instance.created_at,
        EndMachine(inspection.access.name, instance),
    )


def _not_on_record(inspection: AccountInventory, instance: Instance, record: KubeObject[GPURequest]) -> DoctorFinding:
    """No command may terminate it: its request is live, and wants a machine."""
    return DoctorFinding(
        DoctorProblem.NOT_ON_RECORD,
        f"{inspection.access.provider}/{instance.id}",
        f"{_machine(inspection, instance)} was launched for request {record.key}, whose status was erased or "
        "restored. The operator adopts the machine again within minutes.",
        f"tgp why request/{record.key}",
        instance.hourly_microusd,
        instance.created_at,
    )


def _machine(inspection: AccountInventory, instance: Instance, age: str = "") -> str:
    details = ", ".join(each for each in (instance.sku, age) if each)
    return f"Machine {instance.id} at {inspection.title}" + (f" ({details})" if details else "")


# -- requests --------------------------------------------------------------------------------------------------------


def _requests(inventory: ClusterInventory) -> Iterator[DoctorFinding]:
    for record, attempt in expected(inventory.requests):
        inspection = account_of_machine(inventory, attempt)
        if inspection is None and (attempt.launched_at or attempt.instance_id):
            words = (
                f"Request {record.key} has a machine in account {attempt.account or '(unnamed)'}, which is not in "
                f"ConfigMap {inventory.namespace}/{TABLE}; no provider was asked for the machine."
            )
            fix = f"tgp why request/{record.key}"
            yield DoctorFinding(DoctorProblem.UNASKED, f"request/{record.key}", words, fix, hourly(attempt))
        elif inspection is not None and inspection.asked:
            yield from _in_its_account(inventory, record, attempt, inspection)
    for record in inventory.requests:
        about = f"request/{record.key}"
        delete = "kubectl delete gpurequest " + NAMESPACED.format(record.key)
        if copied(record):
            words = (
                f"Request {record.key} is a copy restored from a backup: nothing is bought for the copy, and the "
                "machines in its status belong to another request."
            )
            yield DoctorFinding(DoctorProblem.RESTORED, about, words, delete)
        elif record.unreadable:
            words = f"Request {record.key} cannot be read by this version ({record.unreadable}); its machines are kept."
            yield DoctorFinding(DoctorProblem.UNREADABLE, about, words, "tgp --version")


def _in_its_account(
    inventory: ClusterInventory, record: KubeObject[GPURequest], attempt: Attempt, inspection: AccountInventory
) -> Iterator[DoctorFinding]:
    about, hour = f"request/{record.key}", hourly(attempt)
    there = [instance for instance in inspection.machines if instance.token == attempt.token]
    if there:
        since = _ending_since(record)
        if since is not None and inventory.now - since > ENDS_WITHIN:
            yield DoctorFinding(
                DoctorProblem.NOT_ENDING,
                about,
                f"Machine {there[0].id} should have been terminated {spoken_age(since, inventory.now)} ago, but "
                f"{inspection.title} still lists it ({there[0].said or there[0].state}).",
                f"tgp why request/{record.key}",
                there[0].hourly_microusd if there[0].hourly_microusd is not None else hour,
                since,
            )
    elif not same_account(inventory, inspection, attempt):
        account = resolved(inventory.accounts, attempt)
        named = account.identity if account is not None else attempt.account
        yield DoctorFinding(
            DoctorProblem.ACCOUNT_CHANGED,
            about,
            f"Machine of request {record.key} was launched in account {named}; the API key in "
            f"{inspection.access.credentials or 'use'} now belongs to account {inspection.account}, so the state of "
            "the machine is unknown.",
            f"restore an API key of account {named}",
            hour,
        )
    elif attempt.launched_at is not None and inventory.now - attempt.launched_at > inspection.lag + YOUNG:
        yield DoctorFinding(
            DoctorProblem.NOT_LISTED,
            about,
            f"Request {record.key} has machine {attempt.instance_id or attempt.token} in its status, but "
            f"{inspection.title} does not list it. The operator reports Lost after two such lists.",
            f"tgp why request/{record.key}",
            0,
        )


def _ending_since(record: KubeObject[GPURequest]) -> datetime | None:
    """Since when only the provider keeps the machine. None: not terminating, or still draining."""
    drained = _condition(record, "Drained")
    return drained.last_transition_time if drained is not None and drained.status == "True" else None


def _condition(record: KubeObject[GPURequest], name: str) -> Condition | None:
    held = record.value.status.conditions if record.value is not None else ()
    return next((condition for condition in held if condition.type == name), None)


# -- providers that could not be asked --------------------------------------------------------------------------------


def _inspections(inventory: ClusterInventory) -> Iterator[DoctorFinding]:
    for inspection in inventory.inspections:
        if inspection.asked:
            continue
        at_stake = [
            hourly(attempt)
            for _, attempt in expected(inventory.requests)
            if account_of_machine(inventory, attempt) is inspection and (attempt.launched_at or attempt.instance_id)
        ]
        known = [price for price in at_stake if price is not None]
        machine_count = sum(known) if len(known) == len(at_stake) else None
        if inspection.owned and not at_stake:
            words = f"{inspection.why}. No request uses the machine, as far as the cluster knows."
            yield DoctorFinding(DoctorProblem.CANNOT_TELL, inspection.name, words)
        elif inspection.trouble is AccountProblem.CREDENTIALS_MISSING:
            yield DoctorFinding(
                DoctorProblem.SECRET_MISSING,
                inspection.name,
                inspection.why,
                _secret(inventory, inspection),
                machine_count,
            )
        else:
            words = f"{inspection.title} could not be asked: {inspection.why}. Its machines are unknown, not absent."
            provider = inspection.access.provider
            yield DoctorFinding(
                DoctorProblem.UNASKED, inspection.name, words, f"tgp check --provider {provider}", machine_count
            )


def _accounts(inventory: ClusterInventory) -> Iterator[DoctorFinding]:
    if inventory.accounts_unread:
        words = (
            f"You may not read ConfigMap {inventory.namespace}/{TABLE}, so accounts that no class names any more were "
            "not asked. Their machines are unknown, not absent."
        )
        fix = f"kubectl -n {inventory.namespace} auth can-i get configmap/{TABLE}"
        yield DoctorFinding(DoctorProblem.UNASKED, "accounts", words, fix)


def _secret(inventory: ClusterInventory, inspection: AccountInventory) -> str:
    """Where the Secret could not be read, the command only shows the missing permission."""
    access = inspection.access
    if inspection.missing is MissingCredential.RIGHT:
        return f"kubectl -n {inventory.namespace} auth can-i get secret/{access.secret}"
    there, from_file = inspection.missing is MissingCredential.KEY, access.provider in KEY_IS_A_FILE
    return how_to_supply(inventory.namespace, access.secret, access.key, there=there, from_file=from_file)


# -- classes, Nodes, paused purchases --------------------------------------------------------------------------------


def _pools(inventory: ClusterInventory) -> Iterator[DoctorFinding]:
    for record in inventory.pools or ():
        if record.unreadable:
            words = f"Pool {record.key} cannot be read by this version ({record.unreadable}); its machines are kept."
            yield DoctorFinding(DoctorProblem.UNREADABLE, f"pool/{record.key}", words, "tgp --version")


def _halts(inventory: ClusterInventory) -> Iterator[DoctorFinding]:
    """Where more machines have no request than the operator terminates without long evidence."""
    owned = _owners(inventory)
    for inspection in inventory.inspections:
        machines = [instance for instance in inspection.machines if bears_our_mark(instance, inventory.cluster)]
        lost = [orphan for orphan in orphans(machines, owned, inventory.cluster) if orphan.lost]
        if inspection.asked and too_many(len(lost), len(machines)):
            words = (
                f"{len(lost)} of {len(machines)} machines in this account belong to no request. The operator waits "
                "until each request was confirmed absent twice, 10 minutes apart, and then terminates one machine per "
                "minute. If no request was lost by mistake, terminate them here."
            )
            yield DoctorFinding(DoctorProblem.SWEEP_HALTED, inspection.name, words, "tgp doctor --orphans --fix")


def _classes(inventory: ClusterInventory) -> Iterator[DoctorFinding]:
    for record in inventory.classes:
        for condition in record.value.status.conditions if record.value is not None else ():
            if condition.type == SWEEP_HALTED and condition.status == "True":
                yield DoctorFinding(
                    DoctorProblem.SWEEP_HALTED,
                    f"class/{record.key}",
                    condition.message,
                    "tgp doctor --orphans --fix",
                    None,
                )
            if condition.type == ORPHAN_STAYS and condition.status == "True":  # its cost is counted on its own line
                fix = "terminate the machine in the provider's console"
                yield DoctorFinding(DoctorProblem.ORPHAN_STAYS, f"class/{record.key}", condition.message, fix)


def _nodes(inventory: ClusterInventory) -> Iterator[DoctorFinding]:
    uids = {record.uid_text for record in inventory.requests}
    tokens = {attempt.token for record in inventory.requests for attempt in attempts_of(record)}
    machines = {instance.token for _, instance, _ in listed(inventory)}
    for node in inventory.nodes:
        token = _token_of(node)
        if token is None or token.cluster != inventory.cluster:
            continue
        if str(token) in tokens or node.labels.get(REQUEST_UID) in uids or node.deleting:
            continue
        runs = str(token) in machines
        known = all(one.asked for one in inventory.inspections if one.access.provider == _provider_of(node))
        yield DoctorFinding(
            DoctorProblem.LEFTOVER_NODE,
            f"node/{node.name}",
            f"Node {node.name} has no request any more"
            + (", and its machine still runs." if runs else "." if known else "; its provider could not be asked."),
            "tgp doctor --orphans --fix" if runs else f"kubectl delete node {node.name}",
            0,
            cure=DeleteNode(node) if known and not runs and bool(inventory.inspections) else None,
        )


def _held_pods(inventory: ClusterInventory) -> Iterator[DoctorFinding]:
    """A budget that counts exactly frees a pod within seconds of its end."""
    for pod in inventory.held_pods:
        ended = pod.ended_at or pod.deletion_requested_at
        if not pod.over or ended is None or inventory.now - ended <= HELD_FOR:
            continue
        yield DoctorFinding(
            DoctorProblem.POD_HELD,
            f"pod/{pod.key}",
            f"Pod {pod.key} ended {spoken_age(ended, inventory.now)} ago, and finalizer {COUNTED} still holds it: a "
            "GPUWorkloadBudget has not counted it. The operator does that within seconds once it runs.",
            f"kubectl patch pod {pod.key.name} -n {pod.key.namespace} --type merge "
            """-p '{"metadata": {"finalizers": null}}'""",
            since=ended,
        )


def _token_of(node: Node) -> MachineToken | None:
    """Of a Node that was rented for this operator; None: it is not, or the machine is an owned one and stays."""
    if node.labels.get(PROVISIONED) != "true" or not node.provider_id.startswith(PROVIDER_ID):
        return None
    provider, _, token = node.provider_id.removeprefix(PROVIDER_ID).partition("/")
    return read_token(token) if provider != OWNED_PROVIDER else None


def _provider_of(node: Node) -> str:
    return node.provider_id.removeprefix(PROVIDER_ID).partition("/")[0]


def _paused(inventory: ClusterInventory) -> Iterator[DoctorFinding]:
    if inventory.hold is not None:
        yield DoctorFinding(DoctorProblem.HELD, "everything", f"Purchases are paused: {inventory.hold}.", "tgp release")
    for record in inventory.classes:
        if record.value is not None and record.value.spec.suspend:
            about = f"class/{record.key}"
            yield DoctorFinding(
                DoctorProblem.SUSPENDED,
                about,
                f"Class {record.key} is suspended (spec.suspend): nothing is bought.",
                f"tgp release {about}",
            )


def spoken_age(since: datetime, now: datetime) -> str:
    """In whole seconds, beyond two minutes in whole minutes."""
    length = max(now - since, timedelta())
    step = timedelta(minutes=1) if length >= YOUNG else timedelta(seconds=1)
    return go_duration(length - length % step)
