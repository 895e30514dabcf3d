"""One look at one till: its list, and what the list leaves out asked for by name.

An empty 200 must not make the operator forget machines. So a machine we know by its id and miss in a list is asked for
by that id, before anybody may count it absent. If it is there and should have been listed, the list lied: what else it
leaves out is unknown, and nothing is concluded from it.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.till import Till
from tgp.ports.cloud import Cloud

BAD = frozenset({InstanceState.STOPPED, InstanceState.BROKEN})  # nothing runs there
MOST_ASKED = 20  # machines asked for by id in one look; the others are unknown until the first have been settled


@dataclass(frozen=True, slots=True)
class Expected:
    """A token that somebody wants to know about."""

    token: str
    instance_id: str = ""  # empty: no machine under it was ever seen
    long_since: bool = False  # a list must show it by now, if it is there
    known_microusd: int | None = None  # an hour, as it is on record; None: no machine is


@dataclass(slots=True)
class Sighting:
    """What one look showed; as a roster has it."""

    instances: list[Instance]
    absent: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)  # not listed, and on their way out by their own word
    doubts: dict[str, str] = field(default_factory=dict)
    gap: str = ""
    lied: bool = False


async def look(cloud: Cloud, till: Till, prefix: str, expected: Callable[[], Iterable[Expected]]) -> Sighting:
    """Raises CloudError: then nothing was learned."""
    try:
        listed = await cloud.owned(prefix)
    except CannotTell:
        if not till.settings.machines:
            raise
        return await _ask_box(cloud, till, expected())
    sighting = Sighting(list(listed))
    shown = {instance.token for instance in listed}
    wanted = list(expected())
    missing = [one for one in wanted if one.instance_id and one.token not in shown]
    for one in missing[:MOST_ASKED]:
        try:
            found = await cloud.status(one.instance_id)
        except CannotTell as error:  # what stands in one record must not make the others unknown
            sighting.doubts[one.token] = str(error)
            continue
        _judge(sighting, one, found, box=bool(till.settings.machines))
    for one in missing[MOST_ASKED:]:
        sighting.doubts[one.token] = f"it is not listed, and too many are not to have asked for {one.instance_id} yet"
    await _ask_about(cloud, sighting, wanted)
    if not sighting.lied:
        sighting.absent |= sighting.leaving  # on their way out, and no longer listed: they are out
    else:
        sighting.doubts |= dict.fromkeys(sighting.leaving, "it is ending, and the list that leaves it out is no proof")
    return sighting


async def _ask_about(cloud: Cloud, sighting: Sighting, wanted: Iterable[Expected]) -> None:
    """A list that says of machines what would end them is not enough: they are asked for by their ids, too."""
    known = {one.instance_id: one for one in wanted if one.instance_id and one.known_microusd is not None}
    doubtful = [each for each in sighting.instances if each.id in known and _would_end(each, known[each.id])]
    for listed in doubtful[:MOST_ASKED]:
        try:
            found = await cloud.status(listed.id)
        except CannotTell:
            continue  # the next list may say the same, or not
        if found is None or found.token != listed.token or _would_end(found, known[listed.id]):
            continue
        sighting.instances[sighting.instances.index(listed)] = found
        sighting.gap = f"the list contradicts itself: {listed.id} is not as it says ({listed.said or listed.state})"
        sighting.lied = True


def _would_end(instance: Instance, one: Expected) -> bool:
    bad = instance.interrupted or instance.state in BAD
    return bad or (instance.hourly_microusd or 0) > (one.known_microusd or 0)


def _judge(sighting: Sighting, one: Expected, found: Instance | None, *, box: bool) -> None:
    """Of a machine that is not in the list."""
    if found is None:
        sighting.absent.add(one.token)
    elif found.state is InstanceState.ENDING:
        sighting.leaving.add(one.token)
    elif found.token != one.token:
        sighting.doubts[one.token] = f"{found.id} is there, but no longer marked {one.token}: mark it again, or end it"
    else:
        sighting.instances.append(found)
        if one.long_since and not box:  # a box that forgot for whom it is on has not lied about it
            sighting.gap = f"the list contradicts itself: it leaves out {found.id}, which is there"
            sighting.lied = True


async def _ask_box(cloud: Cloud, till: Till, expected: Iterable[Expected]) -> Sighting:
    """Of a machine you own that does not tell for whom it is on: its tokens are asked for. Off, it is nobody's."""
    (box,) = till.settings.machines
    if await cloud.status(box_id(box.name)) is None:
        return Sighting([])
    sighting = Sighting([], gap=f"{box.name} does not tell for whom it is on")
    for one in sorted(expected, key=lambda each: each.token)[:MOST_ASKED]:
        found = await cloud.status(one.instance_id or box_id(box.name, one.token))
        if found is None:
            sighting.absent.add(one.token)
        else:
            sighting.instances.append(found)
    return sighting


def box_id(machine: str, token: str = "") -> str:
    """The id of a machine you own while it is on for `token`; without one, whoever it is on for."""
    return f"{machine}:{token}"
