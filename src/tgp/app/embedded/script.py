"""What happens in the embedded world, and when: a seeded plan of steps, endless, decided before anything is done.

The first half hour (half a minute on the wall) shows something of everything; after it the days repeat themselves with
small differences, as days do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeAlias, assert_never


@dataclass(frozen=True, slots=True)
class SupplyKeys:
    """An administrator puts keys into the operator's Secret."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WithdrawKeys:
    keys: tuple[str, ...]
    minutes: float  # until they are supplied again


@dataclass(frozen=True, slots=True)
class WantGpus:
    """Somebody edits a pool: only these models will do."""

    namespace: str
    pool: str
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suspend:
    """An administrator stops, or allows, purchases for a class."""

    node_class: str
    suspended: bool


@dataclass(frozen=True, slots=True)
class StartJob:
    namespace: str
    name: str
    team: str
    gpus: int
    pods: int
    minutes: int
    fails: bool = False


@dataclass(frozen=True, slots=True)
class LosePower:
    machine: str
    minutes: float  # until it has power again


@dataclass(frozen=True, slots=True)
class GainPower:
    machine: str


@dataclass(frozen=True, slots=True)
class Rent:
    """Somebody asks for a machine of their own."""

    namespace: str
    name: str
    gpu: str
    price: str  # dollars an hour, at most
    idle: str = "30m"
    life: str = "24h"
    spot: bool = False


@dataclass(frozen=True, slots=True)
class GiveBack:
    """And has had enough of it."""

    namespace: str
    name: str


Step: TypeAlias = SupplyKeys | WithdrawKeys | WantGpus | Suspend | StartJob | LosePower | GainPower | Rent | GiveBack

OAUTH = ("client-id", "client-secret")
ANY_MODEL = ("RTX4090", "RTX3090")
HOUR = 60.0  # the plan counts in minutes
QUIET_AFTER = 19  # o'clock, counted from the world's first hour: people go home, fewer jobs start
BENCH_NAMES = ("notebook", "devbox", "scratch", "demo")
JOB_NAMES = ("train", "embed", "sweep", "eval", "distil", "render")

OVERTURE: tuple[tuple[float, Step], ...] = (
    (1.0, Rent("ml", "notebook", "RTX4090", "0.60", idle="20m")),
    (2.0, StartJob("ml", "train-resnet", "ml", gpus=2, pods=1, minutes=14)),
    (4.0, SupplyKeys(OAUTH)),
    (5.5, StartJob("research", "sweep-lr", "research", gpus=1, pods=4, minutes=9)),
    (6.0, Rent("research", "dreamer", "H100", "0.10")),
    (7.0, WantGpus("ml", "training", ("H100",))),
    (9.0, LosePower("cellar-2", minutes=7)),
    (12.0, WantGpus("ml", "training", ANY_MODEL)),
    (14.0, StartJob("ml", "train-llm", "ml", gpus=4, pods=1, minutes=35)),
    (16.0, GainPower("cellar-2")),
    (17.0, Rent("research", "protein", "A100", "2.50", life="3h")),
    (17.5, GiveBack("research", "dreamer")),
    (18.5, SupplyKeys(("LAMBDA_LABS_API_KEY",))),
    (22.0, Suspend("standard-gpu-class", suspended=True)),
    (25.0, StartJob("research", "eval-broken", "research", gpus=1, pods=1, minutes=3, fails=True)),
    (27.0, Suspend("standard-gpu-class", suspended=False)),
)


def story(step: Step) -> str:
    """What happens, as a narrator says it to a person who watches."""
    match step:
        case SupplyKeys(keys):
            return f"an administrator put {_keys(keys)} into the operator's Secret"
        case WithdrawKeys(keys, minutes):
            return f"{_keys(keys)} was withdrawn from the operator's Secret for {minutes:.0f}m"
        case WantGpus(namespace, pool, models) if set(models) == set(ANY_MODEL):
            return f"the owner of pool {namespace}/{pool} allowed {' and '.join(models)} again"
        case WantGpus(namespace, pool, models):
            return f"the owner of pool {namespace}/{pool} now wants {' or '.join(models)} only"
        case Suspend(node_class, suspended):
            done = "suspended purchases" if suspended else "allowed purchases again"
            return f"an administrator {done} through class {node_class}"
        case StartJob(namespace, name, _, gpus, pods, minutes, fails):
            size = f"{pods} {'pods' if pods > 1 else 'pod'} with {gpus} {'GPUs' if gpus > 1 else 'GPU'} each"
            ends = "and will fail" if fails else f"for {minutes}m"
            return f"team {namespace} started Job {name}: {size} {ends}"
        case LosePower(machine, minutes):
            return f"node {machine} lost power for {minutes:.0f}m"
        case GainPower(machine):
            return f"node {machine} has power again"
        case Rent(namespace, name, gpu, price):
            return f"team {namespace} asked for a machine with {gpu} for at most ${price}/h: request {name}"
        case GiveBack(namespace, name):
            return f"team {namespace} deleted request {name}"
        case _:
            assert_never(step)


def _keys(keys: tuple[str, ...]) -> str:
    return "the Tailscale key" if keys == OAUTH else " and ".join(keys)


def plan(luck: Random) -> Iterator[tuple[float, Step]]:
    """(minutes since the world began, step), in order of time, for ever."""
    yield from OVERTURE
    hour = 0
    number = 0
    while True:
        hour += 1
        steps = list(_jobs(luck, hour, number))
        number += len(steps)
        steps += _incidents(luck, hour)
        steps += _rentals(luck, hour)
        yield from sorted(steps, key=lambda pair: pair[0])


def _jobs(luck: Random, hour: int, number: int) -> Iterator[tuple[float, Step]]:
    busy = hour % 24 < QUIET_AFTER
    for place in range(luck.randint(2, 4) if busy else luck.randint(0, 1)):
        team = luck.choice(("ml", "ml", "research"))
        name = f"{luck.choice(JOB_NAMES)}-{number + place + 1}"
        job = StartJob(
            team,
            name,
            team,
            gpus=luck.choice((1, 1, 2, 4)),
            pods=luck.choice((1, 1, 2, 3)),
            minutes=luck.randint(6, 50),
            fails=luck.random() < 0.1,
        )
        yield hour * HOUR + luck.uniform(0, 55), job


def _rentals(luck: Random, hour: int) -> Iterator[tuple[float, Step]]:
    """A machine of one's own, for an hour or two; half of them are left to idle out."""
    if hour % 24 >= QUIET_AFTER or luck.random() < 0.5:
        return
    team, gpu, price = luck.choice((("ml", "RTX4090", "0.80"), ("research", "A100", "2.50"), ("ml", "L40S", "1.50")))
    name = f"{luck.choice(BENCH_NAMES)}-{hour}"
    begins = hour * HOUR + luck.uniform(2, 20)
    yield begins, Rent(team, name, gpu, price, idle="25m", life="4h")
    if luck.random() < 0.5:
        yield begins + luck.uniform(15, 35), GiveBack(team, name)


def _incidents(luck: Random, hour: int) -> Iterator[tuple[float, Step]]:
    """Each is over before its hour is."""
    start = hour * HOUR
    match luck.randrange(8):
        case 0:
            yield start + 5, WantGpus("ml", "training", ("H100",))
            yield start + 20, WantGpus("ml", "training", ANY_MODEL)
        case 1:
            machine = luck.choice(("cellar-1", "cellar-2", "worker-2"))
            back = luck.uniform(14, 40)
            yield start + 10, LosePower(machine, minutes=back - 10)
            yield start + back, GainPower(machine)
        case 2:
            back = luck.uniform(20, 35)
            yield start + 15, WithdrawKeys(OAUTH, minutes=back - 15)
            yield start + back, SupplyKeys(OAUTH)
        case 3:
            yield start + 30, Suspend("standard-gpu-class", suspended=True)
            yield start + 50, Suspend("standard-gpu-class", suspended=False)
        case _:
            return
