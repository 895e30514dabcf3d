"""All invariants that hold in any world, whatever goes wrong there."""

from tgp.sim.checkers.leadership import OneLeader, TrueTime
from tgp.sim.checkers.lies import NoLieBelieved, ReadyNodesStay
from tgp.sim.checkers.money import (
    BoundedOrders,
    EndsOnlyOurs,
    Findable,
    NoEndWithoutReason,
    NoOrphan,
    NothingAfterStop,
    OneMachine,
    OneOrderPerAttempt,
    WithinLimits,
    WithinPrice,
)
from tgp.sim.checkers.moves import NoTaintOfDeadMoves, ReplacedFirst, WithinDisruptionBudgets
from tgp.sim.checkers.objects import ConditionalWrites, FinalizerHolds, OwnUid
from tgp.sim.checkers.power import NoCallOnMissingData, NotOnForLonger
from tgp.sim.checkers.secrecy import OwnSecretsOnly

INVARIANTS = (
    OneMachine,
    NoOrphan,
    WithinLimits,
    WithinPrice,
    Findable,
    OneOrderPerAttempt,
    BoundedOrders,
    NothingAfterStop,
    EndsOnlyOurs,
    NoEndWithoutReason,
    NoLieBelieved,
    ReadyNodesStay,
    FinalizerHolds,
    ConditionalWrites,
    OwnUid,
    OneLeader,
    TrueTime,
    OwnSecretsOnly,
    ReplacedFirst,
    WithinDisruptionBudgets,
    NoTaintOfDeadMoves,
    NoCallOnMissingData,
    NotOnForLonger,
)
"""`recorder.call(*INVARIANTS)`. Those with settings of their own (canaries, known places) are added one by one."""
