"""Events about the machine of a request: one sentence per fact, with the number that matters."""

from collections.abc import Callable
from datetime import timedelta
from typing import assert_never

import msgspec

from tgp.api.values import go_duration, rfc3339
from tgp.core.model.conditions import followed
from tgp.core.model.facts import (
    DrainBlocked,
    ExpiresSoon,
    LaunchFailed,
    LimitReached,
    MachineFact,
    MachineLaunched,
    MachineLost,
    MachineOrdered,
    MachineReadopted,
    MachineReady,
    MachineTerminated,
    MachineTerminating,
    MeshJoined,
    NodeInitialized,
    NodeRegistered,
    TerminationFailing,
)
from tgp.core.model.money import about, total

EXPECTED_TERMINATIONS = frozenset({"Deleted", "Expired", "Idle"})  # asked for by the owner
UNKNOWN = "Unknown"  # the outcome of a launch that the operator searches for by its token


class EventMessage(msgspec.Struct, frozen=True):
    reason: str
    message: str
    warning: bool = False


def event_message(fact: MachineFact, titled: Callable[[str], str]) -> EventMessage:
    """`titled` gives a provider's name as people write it."""
    match fact:
        case MachineOrdered():
            return EventMessage("Ordering", f"Ordering {_purchase(fact, titled)}.")
        case MachineLaunched():
            return EventMessage(
                "MachineLaunched", f"Machine {fact.instance_id} was launched: {_purchase(fact, titled)}."
            )
        case MachineReadopted():
            found = f"Machine {fact.instance_id} was found by its token after the status was lost"
            return EventMessage("Readopted", f"{found} and is recorded again: {_purchase(fact, titled)}.", warning=True)
        case LaunchFailed():
            return _failure(fact, f"{fact.offer} from {titled(fact.provider)}")
        case NodeRegistered():
            return EventMessage("Registered", f"Node {fact.node} registered {_since(fact.after)}.")
        case MeshJoined():
            return EventMessage("Connected", f"{fact.words.rstrip('.')}, {_since(fact.after)}.")
        case NodeInitialized():
            return EventMessage("Initialized", f"Node {fact.node} shows its GPUs, {_since(fact.after)}.")
        case MachineReady():
            return EventMessage("Ready", f"Node {fact.node} is ready, {_since(fact.after)}.")
        case MachineTerminating():
            unexpected = fact.reason not in EXPECTED_TERMINATIONS
            return EventMessage(fact.reason, followed(fact.why, "Terminating the machine."), unexpected)
        case MachineTerminated():
            cost = f"cost {total(fact.spent_microusd)} ({fact.reason})"
            return EventMessage("MachineTerminated", f"{_machine(fact, titled)} was terminated; {cost}.")
        case MachineLost():
            return EventMessage("Lost", f"{_machine(fact, titled)} was lost: {fact.why}", warning=True)
        case LimitReached():
            who = f"Pool {fact.pool}" if fact.pool else f"Class {fact.node_class}"
            return EventMessage("LimitReached", f"{who}: {fact.why}", warning=True)
        case ExpiresSoon():
            more = fact.why_fixed or "To keep the machine longer, raise spec.maxLifetime."
            return EventMessage(
                "ExpiresSoon", f"Machine will be terminated at {rfc3339(fact.at)}. {more}", warning=True
            )
        case DrainBlocked():
            return EventMessage("DrainBlocked", f"Termination waits for {fact.who}.")
        case TerminationFailing():
            asked = "once" if fact.tries == 1 else f"{fact.tries} times"
            costs = f"is still billed at {about(fact.hourly_microusd)}/h; termination was requested {asked}"
            return EventMessage("TerminationFailing", f"{_machine(fact, titled)} {costs}: {fact.why}", warning=True)
        case _:
            assert_never(fact)


def _purchase(fact: MachineOrdered | MachineLaunched | MachineReadopted, titled: Callable[[str], str]) -> str:
    price = f"{about(fact.hourly_microusd)}/h"
    return f"{fact.offer} from {titled(fact.provider)} at {price} (attempt {fact.attempt})"


def _failure(fact: LaunchFailed, what: str) -> EventMessage:
    if fact.outcome == UNKNOWN:
        message = f"Launch of {what} has an unknown outcome; the machine is searched for by its token: {fact.why}"
        return EventMessage("LaunchUnknown", message, warning=True)
    return EventMessage("LaunchFailed", f"Launch of {what} failed ({fact.outcome}): {fact.why}", warning=True)


def _machine(fact: MachineTerminated | MachineLost | TerminationFailing, titled: Callable[[str], str]) -> str:
    return f"Machine {fact.instance_id} at {titled(fact.provider)}"


def _since(order: timedelta) -> str:
    """In whole seconds."""
    return f"{go_duration(timedelta(seconds=max(0, round(order.total_seconds()))))} after the order"
