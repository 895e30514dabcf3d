"""Rent or own: after how many hours of use an owned machine has cost as much as a rented one.

    hours = hardware / (rent of an hour - electricity of an hour)

Where electricity costs as much as the rent, or more, owning never pays. Exact throughout: fractions, rounded only for
display. Not counted: interest, resale value of the hardware, idle watts, the owner's time.
"""

from dataclasses import dataclass
from fractions import Fraction

DAYS_IN_A_YEAR = 365
WATTS_IN_A_KILOWATT = 1000
HOURS_IN_A_DAY = 24


@dataclass(frozen=True, slots=True)
class Owning:
    """What a machine of one's own costs: once, and for every hour it computes."""

    hardware_microusd: int
    watts: int = 0
    kwh_microusd: int = 0  # price of a kilowatt-hour

    def __post_init__(self) -> None:
        assert self.hardware_microusd > 0, "hardware has a price"
        assert min(self.watts, self.kwh_microusd) >= 0, "the price of electricity is not negative"

    @property
    def electricity_microusd(self) -> Fraction:
        """Of one hour."""
        return Fraction(self.watts * self.kwh_microusd, WATTS_IN_A_KILOWATT)


@dataclass(frozen=True, slots=True)
class Renting:
    """What an hour costs, at the least and at the most."""

    low_microusd: int
    high_microusd: int

    def __post_init__(self) -> None:
        assert 0 < self.low_microusd <= self.high_microusd, "a range of prices begins with the lower one"


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Hours of use until both have cost the same. None: never."""

    soonest: Fraction | None  # against the highest rent
    latest: Fraction | None  # against the lowest

    def jobs(self, hours: int) -> "BreakEven":
        """The same in jobs of so many hours."""
        return BreakEven(_over(self.soonest, hours), _over(self.latest, hours))

    def days(self, hours_per_day: Fraction) -> "BreakEven":
        """The same in days of so many hours of use."""
        assert 0 < hours_per_day <= HOURS_IN_A_DAY, "a day has 24 hours"
        return BreakEven(_over(self.soonest, hours_per_day), _over(self.latest, hours_per_day))


def break_even(owning: Owning, renting: Renting) -> BreakEven:
    return BreakEven(hours(owning, renting.high_microusd), hours(owning, renting.low_microusd))


def hours(owning: Owning, rent_microusd: int) -> Fraction | None:
    """Until owning is the cheaper one; None: it never is."""
    saved = rent_microusd - owning.electricity_microusd
    return owning.hardware_microusd / saved if saved > 0 else None


def two_digits(value: Fraction) -> Fraction:
    """Rounded half up to two significant digits: more would claim what prices that move cannot keep."""
    if value <= 0:
        return Fraction(0)
    unit = Fraction(1)
    while value >= 100 * unit:
        unit *= 10
    while value < 10 * unit:
        unit /= 10
    return int(value / unit + Fraction(1, 2)) * unit


def _over(value: Fraction | None, divisor: int | Fraction) -> Fraction | None:
    return None if value is None else value / divisor
