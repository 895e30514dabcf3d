"""The conditions of a GPUNodeClass: a table of checks, each from one observation to one condition, and Ready, which
sums them up.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, TypeAlias

import msgspec

from tgp.api.nodeclass import GPUNodeClass
from tgp.core.classes.can_buy import Buying, cannot_buy, judge_buying, steady
from tgp.core.classes.machines_status import (
    ClassMachines,
    account_changed,
    boot_proven,
    cooling_machines,
    leaving,
    limit_reached,
    totals,
)
from tgp.core.classes.market_status import (
    credentials_checked,
    judged_again_at,
    keys_tried,
    no_seller,
    offers_fresh,
    spot_unavailable,
    summary,
    worth_writing,
)
from tgp.core.classes.nodeclass import (
    Gap,
    credentials_found,
    deprecated_fields,
    gaps_of,
    keys_exist,
    not_ready,
    valid_message,
)
from tgp.core.classes.observation import ClassObservation
from tgp.core.inventory.in_use import LET_GO_AFTER
from tgp.core.inventory.orphans import stuck_words
from tgp.core.market.sources import machines_of
from tgp.core.model.conditions import ConditionUpdate, condition_in
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.offer_query import RejectReason

Check: TypeAlias = Callable[[ClassObservation], ConditionUpdate | None]  # None: the class does not have the condition
MISFITS_SAID = 3  # reasons in a condition
# the secret reader drops Secrets that are not read for a while; a missing one may still be created
LOOK_AGAIN_AFTER = timedelta(minutes=15)


class ClassStatus(msgspec.Struct, frozen=True):
    """What to write about a class, and when to look at it again."""

    conditions: tuple[ConditionUpdate, ...]
    parts: Mapping[str, Any] | None  # what else changes in the status; None: nothing
    again_at: datetime | None = None  # None: when it changes


def class_status(observation: ClassObservation) -> ClassStatus:
    found = conditions_of(observation)
    now, status = observation.now, observation.status
    cheapest = ((row.offer, row.source) for row in observation.ranking.first_of_each_kind())
    held = status if observation.stored_for_this_spec("OffersFresh") else {}
    boots = {"bootSeenAt": observation.boot_seen, "bootTime": observation.boot_times}
    parts = summary(observation.standings, cheapest, now, held, boots)
    worth = observation.market_known and worth_writing(status, parts, now)
    if not worth:
        found |= {name: steady(found[name], observation.stored(name)) for name in PRICED if name in found}
    sums = totals(observation.machines, status, now, anyway=worth)
    again = min((now + LOOK_AGAIN_AFTER, *_cooldown_ends(observation)))
    return ClassStatus(
        tuple(found.values()),
        {**(parts if worth else {}), **sums} or None,
        min(again, judged_again_at(observation.standings, now) or again),
    )


def _cooldown_ends(observation: ClassObservation) -> Iterator[datetime]:
    """When a machine you own may be tried again: then the class says so."""
    if machines_of(observation.node_class):
        every = (*observation.cooldowns.offers.values(), *observation.cooldowns.hosts.values())
        yield from (each.until for each in every if each.cools_down(observation.now))


def deleting_status(record: KubeObject[GPUNodeClass], machines: ClassMachines, now: datetime) -> ClassStatus:
    """Of a class that is being deleted: what that waits for, beside the last conditions of everything else."""
    status = record.status
    gone_by = (record.deletion_requested_at or now) + LET_GO_AFTER
    verdict = leaving(machines, record.finalizers, gone_by)
    stored = (condition_in(status, name) for name in sorted(OWNED - {verdict.type}))
    conditions = (verdict, *(each for each in stored if each is not None))
    return ClassStatus(conditions, totals(machines, status, now) or None)


def conditions_of(observation: ClassObservation) -> dict[str, ConditionUpdate]:
    found = {name: verdict for name, check in CHECKS.items() if (verdict := check(observation)) is not None}
    return {"Ready": _ready(observation, found.get("CanBuy")), **found}


def _ready(observation: ClassObservation, can_buy: ConditionUpdate | None) -> ConditionUpdate:
    """The first that applies: something is missing, suspended, no provider sells to it, no offer can ever serve it."""
    if gaps := _all_gaps(observation):
        return not_ready(gaps)
    if observation.node_class.spec.suspend:
        return ConditionUpdate(
            "Ready",
            True,
            "Suspended",
            "spec.suspend is set: no machine is launched; machines are still terminated when due.",
        )
    unsold = no_seller(observation.standings) or (cannot_buy(can_buy) if can_buy is not None else None)
    return unsold or ConditionUpdate("Ready", True, "Valid", valid_message(observation.references))


def _all_gaps(observation: ClassObservation) -> tuple[Gap, ...]:
    if observation.outdated_kinds:  # alone: a field that the CRD does not know was dropped before it got here
        return (Gap("KindsOutdated", observation.outdated_kinds),)
    own = gaps_of(observation.references)
    missing = any(gap.reason == "SecretMissing" for gap in own)  # without it the mesh could not be checked
    return (*own, *(gap for gap in observation.preflight.gaps if not (missing and gap.reason == "MeshRefused")))


# -- the checks. Conditions of the market keep their stored value until every provider was polled ---------------------


def _credentials_valid(observation: ClassObservation) -> ConditionUpdate:
    """A key that is missing comes first. Keys may be checked before a long listing ends."""
    found = credentials_found(observation.references)
    if not keys_exist(observation.references):
        return found
    if observation.market_known or keys_tried(observation.standings):
        return credentials_checked(observation.standings)
    return observation.stored("CredentialsValid") or found


def _deprecated_fields(observation: ClassObservation) -> ConditionUpdate | None:
    return deprecated_fields(observation.node_class)


def _offers_fresh(observation: ClassObservation) -> ConditionUpdate | None:
    if not observation.market_known:
        return observation.stored("OffersFresh")
    misfits = [str(reason) for reason in observation.ranking.passed if reason is not RejectReason.NOT_IN_CLASS]
    return offers_fresh(observation.standings, misfits[:MISFITS_SAID], observation.now)


def _spot_unavailable(observation: ClassObservation) -> ConditionUpdate | None:
    if not observation.market_known:
        return observation.stored("SpotUnavailable")
    return spot_unavailable(observation.node_class, observation.standings)


def _can_buy(observation: ClassObservation) -> ConditionUpdate | None:
    if not observation.market_known:
        return observation.stored("CanBuy") if observation.stored_for_this_spec("CanBuy") else None
    ranking = observation.ranking
    return judge_buying(
        Buying(ranking.query, observation.standings, ranking, observation.book, observation.boots, observation.now)
    )


def _template_converted(observation: ClassObservation) -> ConditionUpdate | None:
    return observation.preflight.converted


def _template_unchecked(observation: ClassObservation) -> ConditionUpdate | None:
    return observation.preflight.unchecked


def _limit_reached(observation: ClassObservation) -> ConditionUpdate | None:
    return limit_reached(observation.machines, observation.node_class.spec.limits)


def _account_changed(observation: ClassObservation) -> ConditionUpdate | None:
    return account_changed(observation.machines)


def _boot_proven(observation: ClassObservation) -> ConditionUpdate | None:
    return boot_proven(observation.boot_seen, observation.providers)


def _sweep_halted(observation: ClassObservation) -> ConditionUpdate | None:
    if not observation.halted:
        return None
    message = f"{observation.halted}. tgp doctor --orphans lists them."
    return ConditionUpdate("SweepHalted", True, "TooManyAtOnce", message)


def _orphan_termination_failing(observation: ClassObservation) -> ConditionUpdate | None:
    if not observation.stuck:
        return None
    message = f"{stuck_words(observation.stuck)}. tgp doctor --orphans lists them."
    return ConditionUpdate("OrphanTerminationFailing", True, "TerminationFailing", message)


def _machines_refused(observation: ClassObservation) -> ConditionUpdate | None:
    """Machines you own that are never switched for this class."""
    if not observation.refused_machines:
        return None
    refused = observation.refused_machines.items()
    message = " ".join(f"Machine {name} is never powered on or off: {why}." for name, why in refused)
    return ConditionUpdate("MachinesRefused", True, "NotUsable", message)


def _machines_cooling_down(observation: ClassObservation) -> ConditionUpdate | None:
    """Machines you own that did not wake, or whose receiver asked for patience."""
    cooling = cooling_machines(observation.node_class, observation.book, observation.cooldowns, observation.now)
    if not cooling:
        return None
    return ConditionUpdate("MachinesCoolingDown", True, "PowerFailed", " ".join(cooling))


def _image_preparing(observation: ClassObservation) -> ConditionUpdate | None:
    if not observation.preparing:
        return None
    return ConditionUpdate("ImagePreparing", True, "ImagePreparing", f"{observation.preparing}.")


CHECKS: Mapping[str, Check] = MappingProxyType(
    {
        "CredentialsValid": _credentials_valid,
        "DeprecatedFields": _deprecated_fields,
        "OffersFresh": _offers_fresh,
        "SpotUnavailable": _spot_unavailable,
        "CanBuy": _can_buy,
        "TemplateConverted": _template_converted,
        "TemplateUnchecked": _template_unchecked,
        "LimitReached": _limit_reached,
        "AccountChanged": _account_changed,
        "BootProven": _boot_proven,
        "SweepHalted": _sweep_halted,
        "OrphanTerminationFailing": _orphan_termination_failing,
        "ImagePreparing": _image_preparing,
        "MachinesRefused": _machines_refused,
        "MachinesCoolingDown": _machines_cooling_down,
    }
)
PRICED = ("CanBuy", "Ready")  # their messages have prices in them
OWNED = frozenset({"Ready", *CHECKS})
