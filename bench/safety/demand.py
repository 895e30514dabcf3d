"""What people want, drawn by seed alone: the same wishes at the same moments whether or not anything breaks."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

MARKETS = 8  # different ones; each is also lived through once without faults, as the measure of waste
PLACES = (5, 7)  # requests alive at any time: one per place, the next when the last was deleted
LIVES = (12 * 60, 36 * 60)  # seconds that a machine is wanted for
GPUS = ("RTX4090", "T4", "L4")
GIVEN_UP = 0.25  # of the requests are deleted while their machine is in use; the others end by themselves first
PATIENCE = 6 * 60  # seconds beyond its life after which somebody clears a request away


@dataclass(frozen=True, slots=True)
class Wish:
    name: str
    at: float  # seconds from the beginning
    until: float  # it is deleted then
    life: int  # seconds, its maxLifetime
    gpu: str


def market_of(seed: int) -> int:
    """Storms over one market share its wishes, its prices and its fair-weather bill."""
    return seed % MARKETS


def places(seed: int) -> int:
    return Random(f"{market_of(seed)}/places").randint(*PLACES)


def wishes(seed: int, seconds: float) -> Iterator[Wish]:
    """In the order of their beginnings, all of which lie within `seconds`."""
    found = [wish for place in range(places(seed)) for wish in _of_place(seed, place, seconds)]
    return iter(sorted(found, key=lambda wish: (wish.at, wish.name)))


def _of_place(seed: int, place: int, seconds: float) -> Iterator[Wish]:
    luck = Random(f"{market_of(seed)}/place/{place}")
    at, number = luck.uniform(0, 300), 0
    while at < seconds:
        life = luck.randint(*LIVES)
        lasts = luck.uniform(0.4, 0.9) * life + 240 if luck.random() < GIVEN_UP else life + PATIENCE
        yield Wish(f"want-{place}-{number}", at, at + lasts, life, luck.choice(GPUS))
        at, number = at + lasts + 1.0, number + 1
