"""What a decision about the machines of pools sees, and what it answers with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias

from tgp.api.nodepool import GPUNodePool
from tgp.core.disruption.causes import (
    DisruptionCause,
    Machine,
    Standing,
)
from tgp.core.disruption.ending import EndingMachine
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.pools.planner.world import Order


@dataclass(frozen=True, slots=True)
class Refit:
    """Where the pods of a candidate would go, by a plan made for this look. All empty: into room that is there now."""

    orders: tuple[Order, ...] = ()  # machines that would have to be bought
    coming: tuple[str, ...] = ()  # machines on their way that have room for some of them
    rooms: tuple[str, ...] = ()  # Nodes that have room for some of them
    unserved: str = ""  # why some pod would have no place, in text for users
    limited: bool = False  # … and the reason is a limit
    too_little: str = ""  # of an exchange: why it is not worth it any more, in text for users


@dataclass(frozen=True, slots=True)
class PoolMachines:
    pool: KubeObject[GPUNodePool]
    machines: tuple[Machine, ...] = ()

    @property
    def value(self) -> GPUNodePool:
        assert self.pool.value is not None, "a pool that cannot be read decides nothing"
        return self.pool.value


@dataclass(frozen=True, slots=True)
class DisruptionObservation:
    pools: tuple[PoolMachines, ...]  # whose machines may be exchanged together
    now: datetime
    replacements: Mapping[str, tuple[Machine, ...]] = field(default_factory=dict)  # by move
    budgets: tuple[PodDisruptionBudget, ...] = ()
    stopped: Mapping[ObjectKey, str] = field(default_factory=dict)  # by pool: why it buys nothing now; if it does not
    refits: Mapping[ObjectKey, Refit] = field(default_factory=dict)  # by candidate, of those that `to_plan` names
    standing: Mapping[ObjectKey, Standing] = field(default_factory=dict)  # where they may be exchanged
    ending: Mapping[str, EndingMachine] = field(default_factory=dict)  # by Node, of any pool
    going: frozenset[str] = frozenset()  # Nodes of other pools that leave, or wait to: no pod is moved there
    replanned: Mapping[ObjectKey, str] = field(default_factory=dict)  # requests that could not buy, and why
    # By move: its candidates that are not in these pools. One of the pools has changed its class.
    parted: Mapping[str, tuple[Machine, ...]] = field(default_factory=dict)

    @property
    def machines(self) -> tuple[Machine, ...]:
        return tuple(machine for each in self.pools for machine in each.machines)


@dataclass(frozen=True, slots=True)
class WriteDown:
    """Begin: the record of the move comes before anything else."""

    machine: Machine
    move: str


@dataclass(frozen=True, slots=True)
class WriteStamp:
    """Of a machine without a drift hash, or with one of another version."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class NoteMissing:
    """Since when promised GPUs are gone; None: they are there again."""

    machine: Machine
    since: datetime | None


@dataclass(frozen=True, slots=True)
class Say:
    """Write the condition of a candidate, or of a machine whose move cannot begin."""

    machine: Machine
    update: ConditionUpdate


@dataclass(frozen=True, slots=True)
class Unsay:
    """Nothing is to be said of it any more."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class SetTaint:
    """`effect` of our taint on the candidate's Node; empty: the taint is removed."""

    machine: Machine
    node: Node
    effect: str
    rooms: tuple[str, ...] = ()  # Nodes that its pods go to next: their machines settle for a while


@dataclass(frozen=True, slots=True)
class OrderReplacements:
    machine: Machine
    move: str
    orders: tuple[Order, ...]
    replaced_microusd: int | None = None  # an hour: what they are cheaper than together; None: that is not why


@dataclass(frozen=True, slots=True)
class NoteReplacements:
    """So that a replacement that vanishes is missed."""

    machine: Machine
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoteDrain:
    """When the drain of a machine that no pod uses begins: its grace period counts from there."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class EvictFirst:
    """From a machine that no pod uses: until they are gone it can stay for a pod that needs it."""

    machine: Machine
    pods: tuple[Pod, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """The last step: if the reason still holds when pods were listed once more, the request is deleted."""

    machine: Machine
    cause: DisruptionCause
    rooms: tuple[str, ...] = ()  # as of `SetTaint`


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Replacements that no pod uses are deleted, taint and condition go, and last the record of the move."""

    machine: Machine
    why: str
    unused: tuple[Machine, ...] = ()
    update: ConditionUpdate | None = None  # what stays to be read; None: nothing, the cause is gone
    retry: str = ""  # value of the annotation; empty: the next move may begin at once


Step: TypeAlias = (
    WriteStamp
    | NoteMissing
    | WriteDown
    | Say
    | Unsay
    | SetTaint
    | OrderReplacements
    | NoteReplacements
    | NoteDrain
    | EvictFirst
    | Delete
    | TakeBack
)
