"""One list of one account's machines; machines missing in the list are asked for by id.

An empty 200 must not make the operator forget machines. So a machine with a known id that is missing in a list is asked
for by that id, before it may count as absent. If it exists and should have been listed, the list is wrong: what else it
omits is unknown, and nothing is concluded from it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from tgp.core.model.account_access import AccountAccess
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.token import read_token
from tgp.ports.cloud import Cloud

BAD = frozenset({InstanceState.STOPPED, InstanceState.BROKEN})  # nothing runs there
MOST_ASKED = 20  # machines asked for by id per list; the others stay unknown until the first are settled


class ExpectedInstance(msgspec.Struct, frozen=True):
    """A token whose machine should be listed."""

    token: str
    instance_id: str = ""  # empty: no machine under it was ever seen
    long_since: bool = False  # a list must show it by now, if it exists
    known_microusd: int | None = None  # an hour, as recorded; None: no machine is recorded


@dataclass(slots=True)
class ListResult:
    """What one list showed; the input of an InstanceSnapshot."""

    instances: list[Instance]
    absent: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)  # not listed, and terminating by the provider's own report
    doubts: dict[str, str] = field(default_factory=dict)
    gap: str = ""
    lied: bool = False


async def list_instances(
    cloud: Cloud, access: AccountAccess, prefix: str, expected: Callable[[], Iterable[ExpectedInstance]]
) -> ListResult:
    """Raises CloudError: then nothing is known."""
    try:
        listed = await cloud.owned(prefix)
    except CannotTell:
        if not access.settings.machines:
            raise
        return await _ask_owned(cloud, access, expected())
    result = ListResult(list(listed))
    shown = {instance.token for instance in listed}
    wanted = list(expected())
    missing = [one for one in wanted if one.instance_id and one.token not in shown]
    for one in missing[:MOST_ASKED]:
        try:
            found = await cloud.status(one.instance_id)
        except CannotTell as error:  # one bad record must not make the others unknown
            result.doubts[one.token] = str(error)
            continue
        _judge(result, one, found, owned=bool(access.settings.machines))
    for one in missing[MOST_ASKED:]:
        result.doubts[one.token] = (
            f"Machine {one.instance_id} is not listed and not checked yet: too many machines are missing"
        )
    await _ask_about(cloud, result, wanted)
    if not result.lied:
        result.absent |= result.leaving  # terminating and no longer listed: they are gone
    else:
        result.doubts |= dict.fromkeys(
            result.leaving, "Machine is terminating, and a contradictory list does not prove that it is gone"
        )
    return result


async def _ask_about(cloud: Cloud, result: ListResult, wanted: Iterable[ExpectedInstance]) -> None:
    """A list entry that would cause a termination is not enough: the machine is asked for by id, too."""
    known = {one.instance_id: one for one in wanted if one.instance_id and one.known_microusd is not None}
    doubtful = [each for each in result.instances if each.id in known and _would_terminate(each, known[each.id])]
    for listed in doubtful[:MOST_ASKED]:
        try:
            found = await cloud.status(listed.id)
        except CannotTell:
            continue  # the next list may say the same, or not
        if found is None or found.token != listed.token or _would_terminate(found, known[listed.id]):
            continue
        result.instances[result.instances.index(listed)] = found
        result.gap = f"List contradicts itself: machine {listed.id} is not {listed.said or listed.state}"
        result.lied = True


def _would_terminate(instance: Instance, one: ExpectedInstance) -> bool:
    bad = instance.interrupted or instance.state in BAD
    return bad or (instance.hourly_microusd or 0) > (one.known_microusd or 0)


def _judge(result: ListResult, one: ExpectedInstance, found: Instance | None, *, owned: bool) -> None:
    """For a machine that is not in the list."""
    if found is None:
        result.absent.add(one.token)
        return
    if _of_another(found, one) and not owned:
        return  # it says nothing about the machine that carries this token: only the list does
    if found.state is InstanceState.ENDING:
        result.leaving.add(one.token)
    elif found.token != one.token:
        result.doubts[one.token] = (
            f"Machine {found.id} does not carry the token {one.token}. If it belongs to this request, tag it again or "
            "terminate it"
        )
    else:
        result.instances.append(found)
        if one.long_since and not owned:  # an owned machine that forgot its token is no contradiction
            result.gap = f"List contradicts itself: machine {found.id} exists but is not listed"
            result.lied = True


def _of_another(found: Instance, one: ExpectedInstance) -> bool:
    """The answer to an order named this machine by mistake: a token is on one machine, and this one has another."""
    return found.token != one.token and read_token(found.token) is not None


async def _ask_owned(cloud: Cloud, access: AccountAccess, expected: Iterable[ExpectedInstance]) -> ListResult:
    """For an owned machine that does not report its token: each token is asked for. While off, it has no owner."""
    (machine,) = access.settings.machines
    if await cloud.status(owned_id(machine.name)) is None:
        return ListResult([])
    result = ListResult([], gap=f"Status endpoint of machine {machine.name} does not return the request token")
    for one in sorted(expected, key=lambda each: each.token)[:MOST_ASKED]:
        found = await cloud.status(one.instance_id or owned_id(machine.name, one.token))
        if found is None:
            result.absent.add(one.token)
        else:
            result.instances.append(found)
    return result


def owned_id(machine: str, token: str = "") -> str:
    """The id of a machine you own while it is on for `token`; without one, for any token."""
    return f"{machine}:{token}"
