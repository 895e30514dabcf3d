"""Hundreds of wrong answers per adapter (`TGP_FUZZ` for more): typed errors only, and nothing bought on nonsense."""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import pytest

from tests.amounts import amount
from tests.contracts.clouds.everything import all_providers
from tests.contracts.clouds.fuzz import NONSENSE, WAYS, Way, another_status, replaced
from tests.contracts.clouds.promises.offers import what_is_wrong_with
from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import Stage, play
from tgp.adapters.clouds.parse import ID
from tgp.core.model.cloud_errors import CloudError, OutcomeUnknown
from tgp.core.model.instance import Instance, InstanceState
from tgp.ports.cloud import Account, KeyReport, LaunchOrder, Listing
from tgp.ports.http import Reply
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.machine import SimulatedMachine

ROUNDS = amount(150, 10000, "TGP_FUZZ")
FOREIGN = 2
SHARED_ROUNDS = 2_000


@dataclass
class Fuzzer:
    """Changes the next answer to one verb, and remembers how."""

    luck: Random
    aimed: CloudVerb | None = None
    way: Way = another_status
    last: Reply | None = None
    hits: Counter[str] = field(default_factory=Counter)

    def aim(self, verb: CloudVerb) -> None:
        self.aimed, self.way, self.last = verb, self.luck.choice(WAYS), None

    def rewrite(self, verb: CloudVerb) -> Callable[[Reply], Reply]:
        def change(reply: Reply) -> Reply:
            if verb is not self.aimed:
                return reply
            self.aimed = None
            self.hits[f"{verb} {self.way.__name__}"] += 1
            self.last = self.way(self.luck, reply)
            return self.last

        return change


@dataclass
class Asked:
    verb: CloudVerb  # whose answer is changed
    ask: Callable[[], Awaitable[Any]]


@pytest.mark.parametrize("provider", all_providers(), ids=lambda provider: provider.name)
def test_wrong_answers_crash_nothing_and_buy_nothing(provider: Provider) -> None:
    """Whatever came is a typed error or a value that makes sense."""
    hits = play(provider, rounds_of_nonsense, seed="fuzz")

    assert sum(hits.values()) >= ROUNDS * 7 // 10  # some ask nothing to know the account, or list nothing
    assert len(hits) > len(WAYS)


def test_what_goes_wrong_in_one_answer_does_not_go_on_in_the_next() -> None:
    """Else a seed would tell nothing alone, and nonsense within nonsense would grow beyond what can be written."""
    luck, before = Random("nonsense"), repr(NONSENSE)
    reply = Reply(200, msgspec.json.encode({"rows": [{"id": [1, {"deep": []}]}, {"id": 2}]}))
    for _ in range(SHARED_ROUNDS):
        replaced(luck, reply)

    assert repr(NONSENSE) == before


async def rounds_of_nonsense(stage: Stage) -> Counter[str]:
    fuzzer = Fuzzer(Random(f"{stage.provider.name}/fuzz"))
    for verb in CloudVerb:
        stage.rewrite(verb, fuzzer.rewrite(verb))
    stage.fleet.add_foreign(stage.tenant, FOREIGN)
    made = await stage.running()
    first = stage.machine()
    order = await stage.order(stage.token(2))
    asking = questions(stage, order, made)
    for number in range(ROUNDS):
        as_it_was(stage, first)
        asked = asking[number % len(asking)]
        stage.calls.clear()
        fuzzer.aim(asked.verb)
        await _one(stage, fuzzer, asked)
        assert stage.count(CloudVerb.LAUNCH) == (asked.verb is CloudVerb.LAUNCH)
    return fuzzer.hits


def questions(stage: Stage, order: LaunchOrder, made: Instance) -> list[Asked]:
    cloud, provider = stage.cloud, stage.provider
    return [
        Asked(CloudVerb.OFFERS, cloud.offers),
        Asked(CloudVerb.LIST, lambda: cloud.find(stage.token())),
        Asked(CloudVerb.LIST, lambda: cloud.owned(stage.prefix)),
        Asked(provider.status_by, lambda: cloud.status(made.id)),
        Asked(CloudVerb.LAUNCH, lambda: cloud.launch(order)),
        Asked(provider.account_by, cloud.check),
        Asked(provider.account_by, cloud.identity),
        Asked(CloudVerb.TERMINATE, lambda: cloud.terminate(made.id)),
    ]


async def _one(stage: Stage, fuzzer: Fuzzer, asked: Asked) -> None:
    """Ask, and judge what came. Anything but a CloudError that escapes fails the test with its traceback."""
    told: Any = None
    try:
        value = await asked.ask()
    except CloudError as error:
        value, told = None, error
    named = asked.verb is CloudVerb.LAUNCH and fuzzer.way is another_status and _names_the_newest(stage, fuzzer.last)
    assert what_makes_no_sense(value, stage.provider) == "", fuzzer.last
    assert not (named and told) or isinstance(told, OutcomeUnknown), f"a machine was named, and yet: {told!r}"
    assert not getattr(told, "instance_id", "") or ID.match(told.instance_id), told.instance_id


def _names_the_newest(stage: Stage, reply: Reply | None) -> bool:
    """Does the answer, whatever its status, name the machine that was made last?"""
    newest = next(reversed(stage.fleet.machines))
    return reply is not None and f'"{newest}"'.encode() in reply.content.replace(b": ", b":")


def what_makes_no_sense(value: Any, provider: Provider) -> str:
    """Of anything an adapter may return. Empty: nothing."""
    match value:
        case Listing():
            return next((wrong for each in value.offers if (wrong := what_is_wrong_with(each, provider))), "")
        case Instance():
            return "" if ID.match(value.id) and value.state in InstanceState else f"instance {value}"
        case tuple():
            ids = [each.id for each in value]
            if ids != sorted(set(ids)):
                return f"ids {ids}"
            return next((wrong for each in value if (wrong := what_makes_no_sense(each, provider))), "")
        case KeyReport():
            return what_makes_no_sense(value.account, provider)
        case Account():
            return "" if value.id else "an account without a name"
        case None:
            return ""
    return f"{type(value).__name__} is no answer of the port"


def as_it_was(stage: Stage, first: SimulatedMachine) -> None:
    """The machine we ask about runs, whatever became of it, and what was bought meanwhile is forgotten."""
    stage.fleet.advance()
    stage.fleet.revive(first)
    for machine in list(stage.fleet.machines.values()):
        if not machine.foreign and machine is not first:
            stage.fleet.forget(machine)
    stage.stock_up()
