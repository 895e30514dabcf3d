"""The lean world: a `World` whose Kubernetes has no wire."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

from tgp.api.resource import Resource
from tgp.core.model.object_key import ObjectKey
from tgp.ports.http import Call, HangUp, Reply
from tgp.sim.apiserver.json_value import Json
from tgp.sim.fast.draw import Dice
from tgp.sim.fast.nodes import Nodes
from tgp.sim.fast.objects import FastCommit, Objects
from tgp.sim.fast.pods import Pods
from tgp.sim.faults import NONE, Fault, Faults
from tgp.sim.plans import Act
from tgp.sim.process import Host, Main, Process
from tgp.sim.world import KUBERNETES, World


@dataclass(frozen=True, slots=True)
class Aims:
    """Chances per call that changes something: a fault that strikes exactly there."""

    crash_before: float = 0.0
    crash_after: float = 0.0
    pause: float = 0.0
    freeze: float = 0.0

    def draw(self, luck: Random) -> Act | None:
        dice = luck.random()
        for act, chance in (
            (Act.CRASH_BEFORE, self.crash_before),
            (Act.CRASH_AFTER, self.crash_after),
            (Act.PAUSE, self.pause),
            (Act.FREEZE, self.freeze),
        ):
            dice -= chance
            if dice < 0:
                return act
        return None


NO_AIMS = Aims()


class FastWorld(World):
    def __init__(
        self, seed: int | str, *, faults: Faults = NONE, aims: Aims = NO_AIMS, aims_elsewhere: Aims = NO_AIMS
    ) -> None:
        super().__init__(seed, faults=faults)
        self.objects = Objects(self.clock, seed)
        self.nodes = Nodes(self.objects, self.loop, self.clock)
        self.pods = Pods(self.objects, self.loop, self.clock)
        self._api = _Api(self.objects)
        self._aims, self._aims_elsewhere = aims, aims_elsewhere  # at the API server, and at providers
        self._aimed = self.luck("aims")
        self.network.aim = self._aim
        self.on_lease: Callable[[Host, str, float], None] = lambda _host, _identity, _renewed_at: None
        """Called with renewals: which process, under which identity, and when."""
        self.on_standstill: Callable[[], None] = lambda: None
        """Called when a process pauses, resumes, is gone, cut off, or back."""
        self.network.on_partition = self._stand_still
        self.mount(KUBERNETES, _unreachable)  # so that it can be cut off; nothing is ever sent there
        self.objects.listen(None, self._note)

    @property
    def api(self) -> Any:
        """The few methods of an API server that recorders use."""
        return self._api

    @property
    def cluster(self) -> Any:
        return self.nodes

    def dice(self, kinds: Iterable[Fault]) -> Dice[Fault]:
        """For frequent draws; without faults there are none."""
        return Dice({kind: self.faults.rate(kind) for kind in kinds})

    @property
    def calm_now(self) -> bool:
        return not self._process_faults.raging

    def calm(self) -> None:
        self._aims = self._aims_elsewhere = NO_AIMS
        super().calm()

    def process(self, name: str, main: Main, *, restarts: bool = True) -> Process:
        process = super().process(name, main, restarts=restarts)
        process.on_standstill = self._stand_still
        return process

    def _stand_still(self) -> None:
        self.on_standstill()

    def _aim(self, endpoint: str) -> Act | None:
        aims = self._aims if endpoint == KUBERNETES else self._aims_elsewhere
        return aims.draw(self._aimed) if aims is not NO_AIMS else None

    def _note(self, commit: FastCommit) -> None:
        stored = "gone" if commit.after is None else commit.version
        self.trace.note("api", "commits", commit.resource.plural, commit.key, stored)


async def _unreachable(_call: Call) -> Reply:
    raise HangUp


class _Api:
    """Recorders need a registry, hooks and a local API: here all three are the objects themselves."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self.core = self
        self.registry = self
        self.local_api = self
        self.hooks: list[Callable[[Any, Json | None, Json | None], None]] = []
        objects.listen(None, self._committed)

    def of(self, resource: Resource) -> "_Served":
        return _Served(resource.plural)

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._objects.get(resource, ObjectKey(namespace, name))

    def objects(self, resource: Resource) -> list[Json]:
        return self._objects.all(resource)

    def create(self, resource: Resource, manifest: Json) -> Json:
        return self._objects.create(resource, manifest)

    def delete(self, resource: Resource, namespace: str, name: str, *, propagation: str = "") -> None:  # noqa: ARG002 - pods go with what owns them
        self._objects.delete(resource, ObjectKey(namespace, name))

    def merge_patch(self, resource: Resource, namespace: str, name: str, change: Json, part: str = "") -> Json:
        return self._objects.patch(resource, ObjectKey(namespace, name), change, status=part == "status")

    def _committed(self, commit: FastCommit) -> None:
        served = _Served(commit.resource.plural)
        for hook in self.hooks:
            hook(served, commit.before, commit.after)


@dataclass(frozen=True, slots=True)
class _Served:
    storage: str
