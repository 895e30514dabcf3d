"""Time zones by name."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo  # takes 1 MB: imported when the first zone is read


class UnknownTimeZone(ValueError):
    """No zone of this name in the zone data."""


def time_zone(name: str) -> "ZoneInfo":
    """By its IANA name. The data is the machine's own, or that of the `tzdata` wheel."""
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:  # OSError: a name that is a folder
        raise UnknownTimeZone(name) from error
