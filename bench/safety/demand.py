"""The users' requests, drawn by seed alone: the same requests at the same moments with and without faults."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

MARKETS = 4  # different ones; each is also lived through once without faults, as the measure of waste
PLACES = (5, 6)  # requests alive at any time: one per place, the next when the last was deleted
PER_HOUR = 8.7  # requests that are made in an hour, at all places together; what is refused or lost is ordered again
LIVES = (0.6, 1.3)  # of the mean, that a machine is wanted for
GPUS = ("RTX4090", "T4", "L4")
ANY_PROVIDER = 0.25  # of the requests name none, as users write them: every account has to be listed where one is lost
GIVEN_UP = 0.25  # of the requests are deleted while their machine is in use; the others end by themselves first
USED, START = (0.4, 0.9), 240  # of its life such a machine is used for, besides the seconds that a start takes
PATIENCE = 6 * 60  # seconds beyond its lifetime after which a user deletes a request


@dataclass(frozen=True, slots=True)
class Demand:
    name: str
    at: float  # seconds from the beginning
    until: float  # it is deleted then
    life: int  # seconds, its maxLifetime
    gpu: str
    names_provider: bool = True


def market_of(seed: int) -> int:
    """Runs with faults over one market share its requests, its prices and its bill without faults."""
    return seed % MARKETS


def places(seed: int) -> int:
    return Random(f"{market_of(seed)}/places").randint(*PLACES)


def demands(seed: int, seconds: float) -> Iterator[Demand]:
    """In the order of their beginnings, all of which lie within `seconds`."""
    found = [demand for place in range(places(seed)) for demand in _of_place(seed, place, seconds)]
    return iter(sorted(found, key=lambda demand: (demand.at, demand.name)))


def _of_place(seed: int, place: int, seconds: float) -> Iterator[Demand]:
    luck, style = Random(f"{market_of(seed)}/place/{place}"), Random(f"{market_of(seed)}/style/{place}")
    at, number, usual = luck.uniform(0, 300), 0, _usual_life(places(seed))
    while at < seconds:
        life = round(usual * luck.uniform(*LIVES))
        lasts = luck.uniform(*USED) * life + START if luck.random() < GIVEN_UP else life + PATIENCE
        gpu, names_provider = luck.choice(GPUS), style.random() >= ANY_PROVIDER
        yield Demand(f"want-{place}-{number}", at, at + lasts, life, gpu, names_provider)
        at, number = at + lasts + 1.0, number + 1


def _usual_life(count: int) -> float:
    """Seconds, so that so many places together make `PER_HOUR` requests: more places, longer lives."""
    each = 3600 * count / PER_HOUR  # from one request of a place to the next
    share = 1 - GIVEN_UP + GIVEN_UP * sum(USED) / 2
    return (each - (1 - GIVEN_UP) * PATIENCE - GIVEN_UP * START) / share
