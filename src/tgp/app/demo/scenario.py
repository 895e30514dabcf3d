"""The scenario of the demo: an endless, seeded plan of steps.

The first forty minutes (of real time less than one) show every feature; afterwards the days repeat with small
differences.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeAlias, assert_never


@dataclass(frozen=True, slots=True)
class SupplyKeys:
    """An administrator adds API keys to the operator's Secret."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WithdrawKeys:
    keys: tuple[str, ...]
    minutes: float  # until they are supplied again


@dataclass(frozen=True, slots=True)
class WantGpus:
    """A user edits a pool: only these GPU models are allowed."""

    namespace: str
    pool: str
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Suspend:
    """An administrator suspends or resumes purchases of a class."""

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
    """A user creates a GPURequest."""

    namespace: str
    name: str
    gpu: str
    price: str  # dollars an hour, at most
    idle: str = "30m"
    life: str = "24h"
    spot: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOwnRequest:
    """A user deletes the GPURequest."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class ScaleService:
    """A user changes the replicas of a Deployment."""

    namespace: str
    name: str
    replicas: int


@dataclass(frozen=True, slots=True)
class LoseSpot:
    """A provider takes back the newest spot machine."""


@dataclass(frozen=True, slots=True)
class ChangeImage:
    """An administrator edits a class: its machines get another Talos image."""

    node_class: str
    image: str


Step: TypeAlias = (
    SupplyKeys
    | WithdrawKeys
    | WantGpus
    | Suspend
    | StartJob
    | LosePower
    | GainPower
    | Rent
    | DeleteOwnRequest
    | ScaleService
    | LoseSpot
    | ChangeImage
)

OAUTH = ("client-id", "client-secret")
ANY_MODEL = ("RTX4090", "RTX3090")
HOUR = 60.0  # the plan counts in minutes
MORNING = 2  # hour of the day, counted from the start: a burst of jobs begins
BURST = (16, 8, 4)  # pods of its jobs
OPEN, NOON, NEW_IMAGE, CLOSED = 1, 3, 6, 10  # hours of the day, counted from the start: what `_service` does then
BUSY_REPLICAS, QUIET_REPLICAS = 6, 2  # of the service, in the day and in the evening
IMAGES = ("v1.13.9", "v1.13.0")  # of the service's machines, in turn; they begin with the second
QUIET_AFTER = 19  # hour of the day, counted from the start: fewer jobs begin afterwards
REQUEST_NAMES = ("notebook", "devbox", "scratch", "demo")
LAB_EVERY = 6  # hours between two jobs of the students
JOB_NAMES = ("train", "embed", "sweep", "eval", "distil", "render")

OPENING: tuple[tuple[float, Step], ...] = (
    (1.0, Rent("ml", "notebook", "RTX4090", "0.60", idle="20m")),
    (2.0, StartJob("ml", "train-resnet", "ml", gpus=2, pods=1, minutes=14)),
    (3.0, StartJob("research", "students-lab", "students", gpus=1, pods=3, minutes=60)),
    (4.0, SupplyKeys(OAUTH)),
    (5.5, StartJob("research", "sweep-lr", "research", gpus=1, pods=4, minutes=9)),
    (6.0, Rent("research", "dreamer", "H100", "0.10")),
    (7.0, WantGpus("ml", "training", ("H100",))),
    (9.0, LosePower("cellar-2", minutes=7)),
    (12.0, WantGpus("ml", "training", ANY_MODEL)),
    (14.0, StartJob("ml", "train-llm", "ml", gpus=4, pods=1, minutes=35)),
    (16.0, GainPower("cellar-2")),
    (17.0, Rent("research", "protein", "A100", "2.50", life="3h")),
    (17.5, DeleteOwnRequest("research", "dreamer")),
    (18.5, SupplyKeys(("LAMBDA_LABS_API_KEY",))),
    (22.0, Suspend("standard-gpu-class", suspended=True)),
    (25.0, StartJob("research", "eval-broken", "research", gpus=1, pods=1, minutes=3, fails=True)),
    (27.0, Suspend("standard-gpu-class", suspended=False)),
    (38.0, StartJob("research", "students-again", "students", gpus=1, pods=1, minutes=15)),
)


def describe(step: Step) -> str:
    """The step in one sentence, for the screen."""
    match step:
        case SupplyKeys(keys):
            return f"an administrator put {_keys(keys)} into the operator's Secret"
        case WithdrawKeys(keys, minutes):
            return f"{_keys(keys)} was removed from the operator's Secret for {minutes:.0f}m"
        case WantGpus(namespace, pool, models) if set(models) == set(ANY_MODEL):
            return f"the owner of pool {namespace}/{pool} allowed {' and '.join(models)} again"
        case WantGpus(namespace, pool, models):
            return f"the owner of pool {namespace}/{pool} now allows only {' or '.join(models)}"
        case Suspend(node_class, suspended):
            done = "suspended" if suspended else "resumed"
            return f"an administrator {done} purchases of class {node_class}"
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
        case DeleteOwnRequest(namespace, name):
            return f"team {namespace} deleted request {name}"
        case ScaleService(namespace, name, replicas):
            return f"team {namespace} scaled Deployment {name} to {replicas} replicas"
        case LoseSpot():
            return "a provider interrupted a spot machine"
        case ChangeImage(node_class, image):
            return f"an administrator set the Talos image of class {node_class} to {image}"
        case _:
            assert_never(step)


def _keys(keys: tuple[str, ...]) -> str:
    return "the Tailscale key" if keys == OAUTH else " and ".join(keys)


def plan(rng: Random) -> Iterator[tuple[float, Step]]:
    """(minutes since the start, step), ordered by time, without end."""
    yield from OPENING
    hour = 0
    number = 0
    while True:
        hour += 1
        steps = list(_jobs(rng, hour, number))
        number += len(steps)
        steps += _incidents(rng, hour)
        steps += _rentals(rng, hour)
        steps += _service(hour)
        yield from sorted(steps, key=lambda pair: pair[0])


def _jobs(rng: Random, hour: int, number: int) -> Iterator[tuple[float, Step]]:
    busy = hour % 24 < QUIET_AFTER
    if hour % 24 == MORNING:
        for gpus, pods in zip((1, 2, 4), BURST, strict=True):
            name = f"morning-{hour // 24 + 1}-x{gpus}"
            yield hour * HOUR + 10, StartJob("ml", name, "ml", gpus=gpus, pods=pods, minutes=40)
    if hour % LAB_EVERY == 0:
        yield hour * HOUR + 5, StartJob("research", f"students-lab-{hour}", "students", gpus=1, pods=3, minutes=60)
    for place in range(rng.randint(2, 4) if busy else rng.randint(0, 1)):
        team = rng.choice(("ml", "ml", "research"))
        name = f"{rng.choice(JOB_NAMES)}-{number + place + 1}"
        job = StartJob(
            team,
            name,
            team,
            gpus=rng.choice((1, 1, 2, 4)),
            pods=rng.choice((1, 1, 2, 3)),
            minutes=rng.randint(6, 50),
            fails=rng.random() < 0.1,
        )
        yield hour * HOUR + rng.uniform(0, 55), job


def _service(hour: int) -> Iterator[tuple[float, Step]]:
    """A service grows for the day and shrinks in the evening; between, a spot machine is lost and machines drift."""
    start, today = hour * HOUR, hour % 24
    if today == OPEN:
        yield start + 1, ScaleService("web", "chat", BUSY_REPLICAS)
    elif today == NOON:
        yield start, LoseSpot()
    elif today == NEW_IMAGE:
        yield start, ChangeImage("serving", IMAGES[hour // 24 % len(IMAGES)])
    elif today == CLOSED:
        yield start, ScaleService("web", "chat", QUIET_REPLICAS)


def _rentals(rng: Random, hour: int) -> Iterator[tuple[float, Step]]:
    """Requests for an hour or two; half of them are left until their idle timeout."""
    if hour % 24 >= QUIET_AFTER or rng.random() < 0.5:
        return
    team, gpu, price = rng.choice((("ml", "RTX4090", "0.80"), ("research", "A100", "2.50"), ("ml", "L40S", "1.50")))
    name = f"{rng.choice(REQUEST_NAMES)}-{hour}"
    begins = hour * HOUR + rng.uniform(2, 20)
    yield begins, Rent(team, name, gpu, price, idle="25m", life="4h")
    if rng.random() < 0.5:
        yield begins + rng.uniform(15, 35), DeleteOwnRequest(team, name)


def _incidents(rng: Random, hour: int) -> Iterator[tuple[float, Step]]:
    """Each ends within its hour."""
    start = hour * HOUR
    match rng.randrange(8):
        case 0:
            yield start + 5, WantGpus("ml", "training", ("H100",))
            yield start + 20, WantGpus("ml", "training", ANY_MODEL)
        case 1:
            machine = rng.choice(("cellar-1", "cellar-2", "worker-2"))
            back = rng.uniform(14, 40)
            yield start + 10, LosePower(machine, minutes=back - 10)
            yield start + back, GainPower(machine)
        case 2:
            back = rng.uniform(20, 35)
            yield start + 15, WithdrawKeys(OAUTH, minutes=back - 15)
            yield start + back, SupplyKeys(OAUTH)
        case 3:
            yield start + 30, Suspend("standard-gpu-class", suspended=True)
            yield start + 50, Suspend("standard-gpu-class", suspended=False)
        case _:
            return
