"""Gathers the scene: whatever a cluster shows of our kinds, its nodes, pods and Events, read as anybody could."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from tgp.adapters.kube.board import Filler
from tgp.adapters.kube.events import CORE_EVENT
from tgp.adapters.kube.list import Subject
from tgp.adapters.kube.records.event import EventReader
from tgp.adapters.kube.records.kinds import nodes, pods, typed
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.reflector import Reflector, State
from tgp.adapters.kube.store import Store
from tgp.api.kinds import OUR_KINDS, Kind
from tgp.api.resource import GPU_REQUEST, NODE, POD, Resource
from tgp.app.program import program
from tgp.app.view.crowd import Crowd, gpus
from tgp.app.view.purse import purse_of
from tgp.app.view.verdict import Sight, thing_of
from tgp.core.model.event import Event
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.typed import Typed
from tgp.ports.clock import Clock
from tgp.ports.entropy import Entropy
from tgp.ports.http import Http
from tgp.ports.journal import Journal
from tgp.surfaces.terminal.scene import Happening, Machine, Scene, Stall, Story, Thing, label

UNFINISHED = "status.phase!=Succeeded,status.phase!=Failed"  # pods that are over use nothing
OURS_ONLY = "involvedObject.apiVersion=tgp.io/v1"  # Events of a large cluster are many, and not about us
SHOWN_EVENTS = 100  # the newest; no screen is longer
NOTES = (  # labels that say what a machine is, the first that is there
    "tgp.io/gpu-type",
    "nvidia.com/gpu.product",
    "node.kubernetes.io/instance-type",
)
ANSWERED = frozenset({State.FORBIDDEN, State.NOT_SERVED})
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"


@dataclass(frozen=True, slots=True)
class Frame:
    """What the gatherer cannot see for itself."""

    title: str
    pace: str
    url: str
    kubectl: str  # with the flags that lead there
    operator: Mapping[str, str]
    heard: Iterable[Happening] = ()
    troubles: tuple[str, ...] = ()
    stall: Stall = field(default_factory=Stall)
    look: str = ""  # what to type in another terminal; empty: kubectl get tgp -A
    stories: tuple[Story, ...] = ()  # what a script did, newest last
    held: str = ""  # why every purchase is stopped; empty: it is not
    all_well: str = ""  # a hint for when nothing is wrong; empty: the usual look


@dataclass(frozen=True)
class Sources:
    http: Http
    clock: Clock
    entropy: Entropy
    journal: Journal


class Gatherer:
    """Fills stores of its own, but for the kinds that somebody else's `shared` reflectors fill already."""

    def __init__(self, sources: Sources, *, shared: Iterable[Filler] = (), event_selector: str = "") -> None:
        self._sources = sources
        self._crowd = Crowd()
        self._shared = {reflector.store.resource: reflector for reflector in shared}
        self._ours = tuple(self._kind(kind) for kind in OUR_KINDS)
        self._nodes: Reflector[Node] = self._reflector(Subject(nodes()), Store(NODE))
        pod_store: Store[Pod] = Store(POD)
        pod_store.subscribe(self._crowd.changed)
        self._pods: Reflector[Pod] = self._reflector(Subject(pods(), field_selector=UNFINISHED), pod_store)
        events: Projection[Event] = Projection(CORE_EVENT, EventReader())
        self._events: Reflector[Event] = self._reflector(
            Subject(events, field_selector=event_selector), Store(CORE_EVENT), streaming=False
        )
        self._told = _Newest(self._events.store)

    def _kind(self, kind: Kind) -> Filler:
        found = self._shared.get(kind.resource)
        if found is not None:
            return found
        return self._reflector(Subject(typed(kind.resource, kind.type)), Store(kind.resource))

    def _reflector(self, subject: Subject[Any], store: Store[Any], *, streaming: bool = True) -> Reflector[Any]:
        given = self._sources
        return Reflector(given.http, subject, store, given.entropy, given.journal, streaming=streaming)

    @property
    def _every(self) -> tuple[Filler, ...]:
        return (*self._ours, self._nodes, self._pods, self._events)

    async def run(self) -> None:
        """Until cancelled. Whatever cannot be read is said in the scene; the rest is shown."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._every:
                if self._shared.get(reflector.store.resource) is not reflector:
                    group.create_task(reflector.run(), name=f"view of {reflector.store.resource.plural}")

    @property
    def reached(self) -> bool:
        """The API server has answered at all, if only with a refusal."""
        return any(reflector.store.synced or reflector.state in ANSWERED for reflector in self._every)

    def scene(self, frame: Frame) -> Scene:
        now = self._sources.clock.now()
        things = self._things(now)
        paying = [thing.purse for thing in things if thing.kind == GPU_REQUEST.kind and thing.purse is not None]
        return Scene(
            title=frame.title,
            now=now,
            pace=frame.pace,
            url=frame.url,
            look=frame.look or f"{frame.kubectl} get tgp -A",
            operator=frame.operator,
            things=things,
            machines=self._machines(),
            pods=self._crowd.states(),
            happenings=self._happenings(frame.heard),
            hint=_hint(things, frame),
            stall=frame.stall,
            troubles=(*frame.troubles, *self.troubles()),
            things_known=any(reflector.store.synced for reflector in self._ours),
            machines_known=self._nodes.store.synced,
            rented=sum(purse.hourly_microusd > 0 for purse in paying),
            hourly_microusd=sum(purse.hourly_microusd for purse in paying),
            held=frame.held,
            stories=frame.stories,
        )

    def troubles(self) -> tuple[str, ...]:
        """What cannot be read here, with the way to change that."""
        missing = [one.store.resource.kind for one in self._ours if one.state == State.NOT_SERVED]
        said = [f"not installed here: {', '.join(missing)}. To install: {program()} crds apply"] if missing else []
        barred = [one.store.resource for one in self._every if one.state == State.FORBIDDEN]
        if barred:
            said.append(f"may not be read with these rights: {', '.join(resource.plural for resource in barred)}")
        known = {State.NOT_SERVED, State.FORBIDDEN}
        others = [one for one in self._every if one.why and one.state not in known]
        if others:  # one cause, most likely: told once
            rest = ", ".join(one.store.resource.plural for one in others[1:])
            said.append(f"{others[0].store.resource.plural}: {others[0].why}" + (f"; so with {rest}" if rest else ""))
        return tuple(said)

    def _things(self, now: datetime) -> tuple[Thing, ...]:
        found = []
        for reflector in self._ours:
            resource = reflector.store.resource
            for record in reflector.store.values():
                found.append(replace(thing_of(_sight(resource, record), now), purse=purse_of(record, now)))
        return tuple(sorted(found, key=_unhappy_first))

    def _machines(self) -> tuple[Machine, ...]:
        crowd = self._crowd
        found = [
            Machine(
                name=node.name,
                ready=node.ready is True,
                gpus=gpus(node.allocatable),
                gpus_used=crowd.gpus_used_on(node.name),
                pods=crowd.pods_on(node.name),
                note=_note(node),
            )
            for node in self._nodes.store.values()
        ]
        return tuple(sorted(found, key=lambda machine: (machine.ready, -machine.gpus, machine.name)))

    def _happenings(self, heard: Iterable[Happening]) -> tuple[Happening, ...]:
        both = [*self._told.happenings(), *heard]
        both.sort(key=lambda one: (one.at, one.about, one.reason))
        return tuple(both[-SHOWN_EVENTS:])


class _Newest:
    """The newest Events of a store, made anew only when the store has changed."""

    def __init__(self, store: Store[Event]) -> None:
        self._store = store
        self._stale = True
        self._held: list[Happening] = []
        store.subscribe(self._changed)

    def _changed(self, _old: Event | None, _new: Event | None) -> None:
        self._stale = True

    def happenings(self) -> list[Happening]:
        if self._stale:
            self._held = newest(self._store.values())
            self._stale = False
        return self._held


def newest(events: Iterable[Event]) -> list[Happening]:
    """What is worth a line, oldest first. A pod's daily life is not; what keeps it from running is, once."""
    found: dict[tuple[object, ...], tuple[datetime, Event]] = {}
    for event in sorted(events, key=lambda one: (one.at or _LONG_AGO, one.key)):
        if event.kind == "Pod":
            if not event.warning:
                continue
            mark: tuple[object, ...] = (event.about, event.reason)
        else:
            mark = (event.key,)
        found.pop(mark, None)
        found[mark] = (event.at or _LONG_AGO, event)
    return [_happening(at, event) for at, event in list(found.values())[-SHOWN_EVENTS:]]


_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def _happening(at: datetime, event: Event) -> Happening:
    text = event.message.partition(". ")[0] if event.kind == "Pod" else event.message
    return Happening(at, event.warning, label(event.kind, str(event.about)), event.reason, text, event.times)


def _sight(resource: Resource, record: Typed[Any]) -> Sight:
    return Sight(resource, record.key, record.created_at, record.deleting, record.status_document)


_KIND_ORDER = {kind.resource.kind: place for place, kind in enumerate(OUR_KINDS)}
_MOOD_ORDER = {False: 0, None: 1, True: 2}


def _unhappy_first(thing: Thing) -> tuple[int, int, int, str]:
    """Then what somebody waits or pays for; what came to a good end is last."""
    mood = len(_MOOD_ORDER) if thing.over and thing.good else _MOOD_ORDER[thing.good]
    return mood, thing.kind != GPU_REQUEST.kind, _KIND_ORDER[thing.kind], thing.name


def _note(node: Node) -> str:
    words = [node.labels[name] for name in NOTES if node.labels.get(name)][:1]
    if provider := node.labels.get("tgp.io/provider"):
        words.append(f"rented from {provider}")
    if CONTROL_PLANE in node.labels:
        words.insert(0, "control plane")
    if node.cordoned:
        words.append("cordoned")
    return ", ".join(words)


def _hint(things: tuple[Thing, ...], frame: Frame) -> str:
    """The command that explains the first unhappy object; else a look at all of them."""
    for thing in things:
        if thing.good is False:
            namespace, _, name = thing.name.rpartition("/")
            where = f" -n {namespace}" if namespace else ""
            return f"{frame.kubectl} describe {thing.kind.lower()} {name}{where}"
    return frame.all_well or f"{frame.kubectl} get tgp -A -o wide"
