"""The way back that needs no operator: end what carries our prefix until the provider shows that nothing does."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from tgp.core.model.cloud_errors import CloudError
from tgp.ports.clock import Clock
from tgp.ports.cloud import Cloud

PAUSE_S = 5.0  # between two looks
PATIENCE = timedelta(minutes=30)


class NotShown(Exception):
    """It could not be shown that nothing is left. The text says what to look at by hand."""


async def terminate(
    cloud: Cloud, prefix: str, clock: Clock, say: Callable[[str], None], at_most: timedelta = PATIENCE
) -> tuple[str, ...]:
    """Returns when two complete lists, a listing lag apart, show nothing under the prefix: the ids it ended.

    A list that fails proves nothing, and the counting begins again.
    """
    give_up_at = clock.boottime() + at_most.total_seconds()
    ended: dict[str, None] = {}
    none_since: float | None = None
    trouble = ""
    while clock.boottime() < give_up_at:
        began = clock.boottime()
        try:
            left = await cloud.owned(prefix)
            trouble = ""
        except CloudError as error:
            left, none_since, trouble = None, None, str(error)
            say(f"cannot list: {error}")
        if left == ():
            none_since = began if none_since is None else none_since
            if began - none_since >= cloud.facts.listing_lag.total_seconds() > 0:
                return tuple(ended)
        for machine in left or ():
            none_since = None
            ended[machine.id] = None
            say(f"terminating {machine.id} ({machine.state}, {machine.token})")
            try:
                await cloud.terminate(machine.id)
            except CloudError as error:
                say(f"cannot end {machine.id} yet: {error}")
        await asyncio.sleep(PAUSE_S)
    raise NotShown(
        f"look at {cloud.facts.title}'s console for machines named {prefix}…: {trouble or 'they are still listed'}"
    )
