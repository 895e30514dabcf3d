"""What is wrong between a cluster's objects and what its providers list, what each thing costs, and what mends it.

Unknown is not none: where a provider could not be asked, nothing is concluded about its machines.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TypeAlias

from tgp.api.common import Condition
from tgp.api.request import Attempt, GPURequest
from tgp.api.values import go_duration
from tgp.core.model.attempts import attempts_of, copied
from tgp.core.model.cloud_account import TABLE, resolved
from tgp.core.model.instance import Instance
from tgp.core.model.node import Node
from tgp.core.model.presence import Trouble
from tgp.core.model.survey import Inspection, Lack, Survey
from tgp.core.model.token import Token, plain_uid, read_token
from tgp.core.model.typed import Typed
from tgp.core.rules.collector import Orphan, Owner, bears_our_mark, orphans, owners, too_many
from tgp.core.rules.holdings import expected, hourly, inspection_of, listed, same_account
from tgp.core.rules.readoption import unrecorded
from tgp.core.rules.secrets import KEY_IS_A_FILE, how_to_supply

PROVISIONED = "tgp.io/provisioned"
REQUEST_UID = "tgp.io/request-uid"
PROVIDER_ID = "tgp://"
OWNED_PROVIDER = "webhook"
SWEEP_HALTED, ORPHAN_STAYS = "SweepHalted", "OrphanStays"
YOUNG = timedelta(minutes=2)  # beside the listing lag: objects and lists of one minute may differ
ENDS_WITHIN = timedelta(minutes=15)  # after the drain; beyond it somebody should look
NAMESPACED = "-n {0.namespace} {0.name}"


class Problem(StrEnum):
    ORPHAN = "Orphan"  # a machine of this cluster whose request does not exist
    STRAY = "Stray"  # a machine that its own request does not want: an older attempt, a second one, an ended request
    NOT_ON_RECORD = "NotOnRecord"  # a machine whose request lost its status: the operator adopts it again
    NOT_LISTED = "MachineNotListed"
    ACCOUNT_CHANGED = "AccountChanged"
    UNASKED = "ProviderNotAsked"
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - a reason, not a secret
    LEFTOVER_NODE = "LeftoverNode"
    NOT_ENDING = "TerminationFailing"
    SWEEP_HALTED = "SweepHalted"
    ORPHAN_STAYS = "OrphanStays"  # the operator asks for its end, and it does not come
    RESTORED = "RestoredCopy"
    UNREADABLE = "Unreadable"
    HELD = "Held"
    SUSPENDED = "Suspended"
    CANNOT_TELL = "OwnedMachineSilent"


NOTES = frozenset({Problem.HELD, Problem.SUSPENDED, Problem.RESTORED, Problem.CANNOT_TELL})  # wanted, or harmless
UNKNOWNS = frozenset({Problem.UNASKED, Problem.SECRET_MISSING, Problem.ACCOUNT_CHANGED})  # nobody can tell
ORPHANAGE = (
    frozenset({Problem.ORPHAN, Problem.STRAY, Problem.NOT_ON_RECORD, Problem.SWEEP_HALTED, Problem.ORPHAN_STAYS})
    | UNKNOWNS
)  # what --orphans is about


@dataclass(frozen=True, slots=True)
class EndMachine:
    """What would mend it: end this machine, at this till."""

    till: str
    instance: Instance


@dataclass(frozen=True, slots=True)
class DeleteNode:
    node: Node


Cure: TypeAlias = EndMachine | DeleteNode


@dataclass(frozen=True, slots=True)
class Finding:
    problem: Problem
    about: str
    words: str
    mend: str = ""  # a command; empty: there is nothing to do by hand
    hourly_microusd: int | None = 0  # what it costs while it lasts; None: nobody says
    since: datetime | None = None
    cure: Cure | None = None  # what `--fix` would do; None: not for a command to do

    @property
    def note(self) -> bool:
        return self.problem in NOTES

    @property
    def unknown(self) -> bool:
        return self.problem in UNKNOWNS


def findings(survey: Survey, *, only_orphans: bool = False) -> tuple[Finding, ...]:
    """What costs first, then what is unknown, then the rest; notes last."""
    found = [
        *_machines(survey),
        *_requests(survey),
        *_inspections(survey),
        *_accounts(survey),
        *_halts(survey),
        *_classes(survey),
        *_nodes(survey),
        *_brakes(survey),
    ]
    if only_orphans:
        found = [one for one in found if one.problem in ORPHANAGE]
    return tuple(sorted(found, key=lambda one: (one.note, list(Problem).index(one.problem), one.about)))


# -- machines --------------------------------------------------------------------------------------------------------


def _machines(survey: Survey) -> Iterator[Finding]:
    owned = _owners(survey)
    records = {plain_uid(record.uid_text): record for record in survey.requests}
    where = {instance.token + instance.id: inspection for inspection, instance, _ in listed(survey)}
    for orphan in orphans((instance for _, instance, _ in listed(survey)), owned, survey.cluster):
        inspection = where[orphan.instance.token + orphan.instance.id]
        token = read_token(orphan.instance.token)
        assert token is not None, "only what bears our mark can be an orphan"
        record = records.get(token.uid)
        yield _orphan(inspection, orphan, survey) if record is None else _stray(inspection, orphan, record)
    lost = _unrecorded(survey)
    for inspection, instance, token in listed(survey):
        if lost.get(token.uid) is instance:
            yield _not_on_record(inspection, instance, records[token.uid])


def _owners(survey: Survey) -> dict[str, Owner]:
    lost = _unrecorded(survey)
    return owners(survey.requests, lambda record: lost.get(plain_uid(record.uid_text)))


def _unrecorded(survey: Survey) -> dict[str, Instance]:
    """By uid: the machine that its request adopts again."""
    own: dict[str, list[Instance]] = {}
    highest: dict[str, int] = {}
    for _, instance, token in listed(survey):
        own.setdefault(token.uid, []).append(instance)
        highest[token.uid] = max(highest.get(token.uid, 0), token.attempt)
    named = {plain_uid(record.uid_text): record for record in survey.requests}
    found = ((uid, unrecorded(named[uid], own[uid], highest[uid])) for uid in own if uid in named)
    return {uid: instance for uid, instance in found if instance is not None}


def _orphan(inspection: Inspection, orphan: Orphan, survey: Survey) -> Finding:
    instance = orphan.instance
    age = f", {spoken_age(instance.created_at, survey.now)} old" if instance.created_at is not None else ""
    return Finding(
        Problem.ORPHAN,
        f"{inspection.till.provider}/{instance.id}",
        f"{instance.sku or 'a machine'} at {inspection.title}{age}: it carries this cluster's mark "
        f"({instance.token}), and {orphan.why}.",
        "tgp doctor --orphans --fix",
        instance.hourly_microusd,
        instance.created_at,
        EndMachine(inspection.till.name, instance),
    )


def _stray(inspection: Inspection, orphan: Orphan, record: Typed[GPURequest]) -> Finding:
    """Requests are listed after the machines: what its request does not want then, it will not want later."""
    instance = orphan.instance
    return Finding(
        Problem.STRAY,
        f"{inspection.till.provider}/{instance.id}",
        f"{instance.sku or 'a machine'} at {inspection.title} is not wanted by request {record.key}: {orphan.why}. "
        "The operator terminates the machine within minutes.",
        "tgp doctor --orphans --fix",
        instance.hourly_microusd,
        instance.created_at,
        EndMachine(inspection.till.name, instance),
    )


def _not_on_record(inspection: Inspection, instance: Instance, record: Typed[GPURequest]) -> Finding:
    """Not for a command to end: its request lives, and wants a machine."""
    return Finding(
        Problem.NOT_ON_RECORD,
        f"{inspection.till.provider}/{instance.id}",
        f"{instance.sku or 'a machine'} at {inspection.title} was rented for request {record.key}, whose status was "
        "wiped or put back. The operator adopts the machine again within minutes.",
        f"tgp why request/{record.key}",
        instance.hourly_microusd,
        instance.created_at,
    )


# -- requests --------------------------------------------------------------------------------------------------------


def _requests(survey: Survey) -> Iterator[Finding]:
    for record, attempt in expected(survey.requests):
        inspection = inspection_of(survey, attempt)
        if inspection is None and (attempt.launched_at or attempt.instance_id):
            words = (
                f"has a machine by its status, in account {attempt.account or 'of no name'}, which is not in ConfigMap "
                f"{survey.namespace}/{TABLE}: no provider was asked for it."
            )
            mend = f"tgp why request/{record.key}"
            yield Finding(Problem.UNASKED, f"request/{record.key}", words, mend, hourly(attempt))
        elif inspection is not None and inspection.asked:
            yield from _at_its_till(survey, record, attempt, inspection)
    for record in survey.requests:
        about = f"request/{record.key}"
        delete = "kubectl delete gpurequest " + NAMESPACED.format(record.key)
        if copied(record):
            words = "is a copy restored from a backup: it buys nothing, and the machines in its status are not its own."
            yield Finding(Problem.RESTORED, about, words, delete)
        elif record.unreadable:
            words = f"cannot be read by this version ({record.unreadable}); it keeps the machines it bought."
            yield Finding(Problem.UNREADABLE, about, words, "tgp --version")


def _at_its_till(
    survey: Survey, record: Typed[GPURequest], attempt: Attempt, inspection: Inspection
) -> Iterator[Finding]:
    about, hour = f"request/{record.key}", hourly(attempt)
    there = [instance for instance in inspection.machines if instance.token == attempt.token]
    if there:
        since = _ending_since(record)
        if since is not None and survey.now - since > ENDS_WITHIN:
            yield Finding(
                Problem.NOT_ENDING,
                about,
                f"was to give back {there[0].id} since {spoken_age(since, survey.now)} ago, and "
                f"{inspection.title} lists it still ({there[0].said or there[0].state}).",
                f"tgp why request/{record.key}",
                there[0].hourly_microusd if there[0].hourly_microusd is not None else hour,
                since,
            )
    elif not same_account(survey, inspection, attempt):
        account = resolved(survey.accounts, attempt)
        named = account.identity if account is not None else attempt.account
        yield Finding(
            Problem.ACCOUNT_CHANGED,
            about,
            f"was rented in account {named}; the key in {inspection.till.credentials or 'use'} belongs to "
            f"{inspection.account} now, so nobody can tell whether its machine runs.",
            f"put a key of account {named} back",
            hour,
        )
    elif attempt.launched_at is not None and survey.now - attempt.launched_at > inspection.lag + YOUNG:
        yield Finding(
            Problem.NOT_LISTED,
            about,
            f"has machine {attempt.instance_id or attempt.token} by its status, and {inspection.title} does not list "
            "it: the operator says Lost once it has seen so twice.",
            f"tgp why request/{record.key}",
            0,
        )


def _ending_since(record: Typed[GPURequest]) -> datetime | None:
    """Since when nothing but the provider keeps it. None: it is not ending, or still drains."""
    drained = _condition(record, "Drained")
    return drained.last_transition_time if drained is not None and drained.status == "True" else None


def _condition(record: Typed[GPURequest], name: str) -> Condition | None:
    held = record.object.status.conditions if record.object is not None else ()
    return next((condition for condition in held if condition.type == name), None)


# -- who could not be asked ------------------------------------------------------------------------------------------


def _inspections(survey: Survey) -> Iterator[Finding]:
    for inspection in survey.inspections:
        if inspection.asked:
            continue
        at_stake = [
            hourly(attempt)
            for _, attempt in expected(survey.requests)
            if inspection_of(survey, attempt) is inspection and (attempt.launched_at or attempt.instance_id)
        ]
        known = [price for price in at_stake if price is not None]
        stake = sum(known) if len(known) == len(at_stake) else None
        if inspection.owned and not at_stake:
            words = f"{inspection.why}. No request has it switched on, as far as the cluster knows."
            yield Finding(Problem.CANNOT_TELL, inspection.name, words)
        elif inspection.trouble is Trouble.CREDENTIALS_MISSING:
            yield Finding(Problem.SECRET_MISSING, inspection.name, inspection.why, _secret(survey, inspection), stake)
        else:
            words = f"could not be asked: {inspection.why}. Its machines are unknown, not absent."
            provider = inspection.till.provider
            yield Finding(Problem.UNASKED, inspection.name, words, f"tgp check --provider {provider}", stake)


def _accounts(survey: Survey) -> Iterator[Finding]:
    if survey.accounts_unread:
        words = (
            f"you may not read ConfigMap {survey.namespace}/{TABLE}: accounts that no class names any more were not "
            "asked. Their machines are unknown, not absent."
        )
        mend = f"kubectl -n {survey.namespace} auth can-i get configmap/{TABLE}"
        yield Finding(Problem.UNASKED, "accounts", words, mend)


def _secret(survey: Survey, inspection: Inspection) -> str:
    """Where nobody could look whether it is there, the command only shows what is lacking: a right."""
    till = inspection.till
    if inspection.lack is Lack.RIGHT:
        return f"kubectl -n {survey.namespace} auth can-i get secret/{till.secret}"
    there, from_file = inspection.lack is Lack.KEY, till.provider in KEY_IS_A_FILE
    return how_to_supply(survey.namespace, till.secret, till.key, there=there, from_file=from_file)


# -- classes, Nodes, brakes ------------------------------------------------------------------------------------------


def _halts(survey: Survey) -> Iterator[Finding]:
    """Where more machines have no request than the operator terminates without long evidence."""
    owned = _owners(survey)
    for inspection in survey.inspections:
        machines = [instance for instance in inspection.machines if bears_our_mark(instance, survey.cluster)]
        lost = [orphan for orphan in orphans(machines, owned, survey.cluster) if orphan.lost]
        if inspection.asked and too_many(len(lost), len(machines)):
            words = (
                f"{len(lost)} of {len(machines)} machines there belong to no request. The operator waits until each "
                "request was confirmed absent twice, 10 minutes apart, and then terminates one machine per minute. "
                "If no request was lost by mistake, terminate them here."
            )
            yield Finding(Problem.SWEEP_HALTED, inspection.name, words, "tgp doctor --orphans --fix")


def _classes(survey: Survey) -> Iterator[Finding]:
    for record in survey.classes:
        for condition in record.object.status.conditions if record.object is not None else ():
            if condition.type == SWEEP_HALTED and condition.status == "True":
                yield Finding(
                    Problem.SWEEP_HALTED, f"class/{record.key}", condition.message, "tgp doctor --orphans --fix", None
                )
            if condition.type == ORPHAN_STAYS and condition.status == "True":  # what it costs, its own line counts
                mend = "end it in the provider's own console"
                yield Finding(Problem.ORPHAN_STAYS, f"class/{record.key}", condition.message, mend)


def _nodes(survey: Survey) -> Iterator[Finding]:
    uids = {record.uid_text for record in survey.requests}
    tokens = {attempt.token for record in survey.requests for attempt in attempts_of(record)}
    machines = {instance.token for _, instance, _ in listed(survey)}
    for node in survey.nodes:
        token = _token_of(node)
        if token is None or token.cluster != survey.cluster:
            continue
        if str(token) in tokens or node.labels.get(REQUEST_UID) in uids or node.deleting:
            continue
        runs = str(token) in machines
        known = all(one.asked for one in survey.inspections if one.till.provider == _provider_of(node))
        yield Finding(
            Problem.LEFTOVER_NODE,
            f"node/{node.name}",
            "has no request any more"
            + (
                ", and its machine runs on: end that first." if runs else "." if known else "; its provider is unknown."
            ),
            f"kubectl delete node {node.name}",
            0,
            cure=DeleteNode(node) if known and not runs and bool(survey.inspections) else None,
        )


def _token_of(node: Node) -> Token | None:
    """Of a Node that was rented for this operator; None: it is not, or the machine is somebody's own and stays."""
    if node.labels.get(PROVISIONED) != "true" or not node.provider_id.startswith(PROVIDER_ID):
        return None
    provider, _, token = node.provider_id.removeprefix(PROVIDER_ID).partition("/")
    return read_token(token) if provider != OWNED_PROVIDER else None


def _provider_of(node: Node) -> str:
    return node.provider_id.removeprefix(PROVIDER_ID).partition("/")[0]


def _brakes(survey: Survey) -> Iterator[Finding]:
    if survey.hold is not None:
        yield Finding(Problem.HELD, "everything", f"nothing is bought: {survey.hold}.", "tgp release")
    for record in survey.classes:
        if record.object is not None and record.object.spec.suspend:
            about = f"class/{record.key}"
            yield Finding(Problem.SUSPENDED, about, "buys nothing (spec.suspend).", f"tgp release {about}")


def spoken_age(since: datetime, now: datetime) -> str:
    """In whole seconds, beyond two minutes in whole minutes: people read it."""
    length = max(now - since, timedelta())
    step = timedelta(minutes=1) if length >= YOUNG else timedelta(seconds=1)
    return go_duration(length - length % step)
