"""When a machine you own has to stay on, and when it has to stay off.

Both survive a restart: since when it is on is in its request's status, since when it is off in an annotation of its
Node.
"""

from datetime import datetime, timedelta

from tgp.api.field_error import Invalid
from tgp.api.owned_machine import PowerMachine
from tgp.api.values import duration
from tgp.core.disruption.windows import WindowState, open_at
from tgp.core.model.cron import NotASchedule, read_schedule
from tgp.core.model.node import Node
from tgp.core.model.time_zone import UnknownTimeZone
from tgp.core.requests.node_metadata import off_since

USUAL_ON, USUAL_OFF = timedelta(minutes=10), timedelta(minutes=1)  # the defaults of minOnTime and minOffTime
CLOSED = WindowState(False, None)


def keep_on(machine: PowerMachine, now: datetime) -> WindowState:
    """Whether its `keepOn` window is open. One that cannot be read is closed: the class is not Ready, and says so."""
    if machine.keep_on is None:
        return CLOSED
    try:
        schedule = read_schedule(machine.keep_on.schedule)
        length = duration(machine.keep_on.duration, "keepOn.duration")
        return open_at(schedule, length, machine.keep_on.time_zone or "UTC", now)
    except (NotASchedule, UnknownTimeZone, Invalid):
        return CLOSED


def stays_on_until(machine: PowerMachine, on_since: datetime | None, now: datetime) -> datetime | None:
    """Not switched off before, whatever it is used for; None: it may be now. `on_since` None: it is not on yet."""
    window = keep_on(machine, now)
    moments = [window.until or datetime.max.replace(tzinfo=now.tzinfo)] if window.open else []
    if on_since is not None:
        moments.append(on_since + _length(machine.min_on_time, USUAL_ON))
    return max((each for each in moments if each > now), default=None)


def stays_off_until(machine: PowerMachine, node: Node | None, now: datetime) -> datetime | None:
    """Not switched on before; None: it may be now. A time in the future is not believed: kubelets write annotations."""
    since = off_since(node) if node is not None else None
    if since is None or since > now:
        return None
    until = since + _length(machine.min_off_time, USUAL_OFF)
    return until if until > now else None


def _length(written: str, usual: timedelta) -> timedelta:
    try:
        return duration(written, "")
    except Invalid:
        return usual
