"""What the owner of a request reads of its machine: a sentence for each fact, with the number that matters."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import assert_never

from tgp.api.values import go_duration, rfc3339
from tgp.core.model.facts import (
    ExpiresSoon,
    LaunchFailed,
    LimitHolds,
    MachineEnding,
    MachineFact,
    MachineLaunched,
    MachineLost,
    MachineOrdered,
    MachineReadopted,
    MachineReady,
    MachineReturned,
    MeshJoined,
    NodeInitialized,
    NodeRegistered,
    ProtectionHolds,
    TerminationFailing,
)
from tgp.core.rules.ranking_words import about

ORDINARY_ENDINGS = frozenset({"Deleted", "Expired", "Idle"})  # as its owner wished
UNKNOWN = "Unknown"  # the outcome of a launch that has to be looked for


@dataclass(frozen=True, slots=True)
class Sentence:
    reason: str
    message: str
    warning: bool = False


def sentence(fact: MachineFact, titled: Callable[[str], str]) -> Sentence:
    """`titled` gives a provider's name as people write it."""
    match fact:
        case MachineOrdered():
            return Sentence("Ordering", f"ordering {_purchase(fact, titled)}")
        case MachineLaunched():
            return Sentence("Rented", f"rented {_purchase(fact, titled)}: machine {fact.instance_id}")
        case MachineReadopted():
            words = f"machine {fact.instance_id} was found by its token after the status was lost"
            return Sentence("Readopted", f"{words}: {_purchase(fact, titled)} is on record again", warning=True)
        case LaunchFailed():
            return _failure(fact, f"{fact.offer} from {titled(fact.provider)}")
        case NodeRegistered():
            return Sentence("Registered", f"Node {fact.node} registered {_since(fact.after)}")
        case MeshJoined():
            return Sentence("Connected", f"{fact.words}, {_since(fact.after)}")
        case NodeInitialized():
            return Sentence("Initialized", f"Node {fact.node} has its GPUs, {_since(fact.after)}")
        case MachineReady():
            return Sentence("Ready", f"Node {fact.node} is ready, {_since(fact.after)}")
        case MachineEnding():
            unwished = fact.reason not in ORDINARY_ENDINGS
            return Sentence(fact.reason, f"giving the machine back: {fact.why}", unwished)
        case MachineReturned():
            cost = f"it cost {about(fact.spent_microusd)} ({fact.reason})"
            return Sentence("Returned", f"{_machine(fact, titled)} is gone; {cost}")
        case MachineLost():
            return Sentence("Lost", f"{_machine(fact, titled)} is lost: {fact.why}", warning=True)
        case LimitHolds():
            return Sentence("LimitReached", f"class {fact.node_class}: {fact.why}", warning=True)
        case ExpiresSoon():
            ends = f"ends at {rfc3339(fact.at)}: raise maxLifetime to keep the machine longer"
            return Sentence("ExpiresSoon", ends, warning=True)
        case ProtectionHolds():
            return Sentence("ProtectionHolds", f"giving back waits for {fact.who}")
        case TerminationFailing():
            asked = "once" if fact.tries == 1 else f"{fact.tries} times"
            costs = f"was asked to end {asked} and still costs {about(fact.hourly_microusd)}/h"
            return Sentence("TerminationFailing", f"{_machine(fact, titled)} {costs}: {fact.why}", warning=True)
        case _:
            assert_never(fact)


def _purchase(fact: MachineOrdered | MachineLaunched | MachineReadopted, titled: Callable[[str], str]) -> str:
    price = f"{about(fact.hourly_microusd)}/h"
    return f"{fact.offer} from {titled(fact.provider)} at {price} (attempt {fact.attempt})"


def _failure(fact: LaunchFailed, what: str) -> Sentence:
    if fact.outcome == UNKNOWN:
        message = f"ordered {what}; whether it was made has to be seen: {fact.why}"
        return Sentence("LaunchUnknown", message, warning=True)
    return Sentence("LaunchFailed", f"no {what} ({fact.outcome}): {fact.why}", warning=True)


def _machine(fact: MachineReturned | MachineLost | TerminationFailing, titled: Callable[[str], str]) -> str:
    return f"machine {fact.instance_id} at {titled(fact.provider)}"


def _since(order: timedelta) -> str:
    """Whole seconds will do."""
    return f"{go_duration(timedelta(seconds=max(0, round(order.total_seconds()))))} after the order"
