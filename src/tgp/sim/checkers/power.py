"""The invariants about machines you own: P1 and P2."""

from dataclasses import dataclass
from typing import Any

import msgspec

from tgp.api.common import OWNED_PROVIDER
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, NODE, POD
from tgp.api.values import NEVER, span
from tgp.ports.http import NO_JSON, Call, Reply, Streaming
from tgp.sim.apiserver.json_value import Json
from tgp.sim.checkers.leader_terms import CountedWait, LeaderTerms
from tgp.sim.checkers.recorded import RecordedRequest, Rented, is_ready
from tgp.sim.checkers.recorder import Checker, Recorder
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.machine import Phase
from tgp.sim.router import Exchange

STATES = frozenset({"on", "off", "starting", "stopping"})
OFF_BY = 30.0  # seconds: a status is read immediately before a machine is switched off …
ON_BY = 300.0  # … and every machine is asked in turn before one is switched on
CONTRADICTED_FOR = 120.0  # seconds that a status says off and the Node is Ready: a Node follows its machine later
ACCEPTED = frozenset(range(200, 300))
SPARE = 1800.0  # seconds for a drain, a search for room, and a receiver that is asked again
LOOKS_EVERY = 20.0  # seconds
PROTECTED = "tgp.io/do-not-disrupt"


@dataclass(slots=True)
class _Status:
    """What the status endpoint of one machine has answered."""

    read_at: float | None = None  # when it last gave a state; None: never
    off_since: float | None = None  # it has said off since then; None: it does not
    accepted: bool = False  # a power-off was accepted since it last said on


class NoCallOnMissingData(Checker):
    """P1: a machine with a status endpoint is switched only where that gave its state, and its Node agrees."""

    invariant = "P1"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._statuses: dict[str, _Status] = {}  # by machine
        self._ready_since: dict[str, float] = {}  # by Node

    def registered(self, before: Json | None, after: Json | None) -> None:
        node = after or before
        assert node is not None, "a commit is about something"
        name = node["metadata"]["name"]
        if after is not None and is_ready(after):
            self._ready_since.setdefault(name, self.recorder.now)
        else:
            self._ready_since.pop(name, None)

    def looked(self, provider: str, verb: CloudVerb, call: Call, answer: Reply | Streaming | None) -> None:
        if provider != OWNED_PROVIDER:
            return
        held = self._statuses.setdefault(_machine_in(call), _Status())
        if verb is CloudVerb.TERMINATE:
            held.accepted |= answer is not None and answer.status in ACCEPTED
        elif (state := _state(answer)) is not None:
            held.read_at = self.recorder.now
            held.off_since = None if state != "off" else held.off_since or self.recorder.now
            held.accepted &= state != "on"

    def changing(self, exchange: Exchange) -> None:
        verb = self.recorder.verb_at(exchange, OWNED_PROVIDER)
        if verb not in (CloudVerb.LAUNCH, CloudVerb.TERMINATE):
            return
        name, on = _machine_in(exchange.call), verb is CloudVerb.LAUNCH
        settings = _settings(self.recorder, name)
        if settings is None or not settings.get("statusEndpoint"):
            return  # its Node is the evidence
        now, held = self.recorder.now, self._statuses.get(name) or _Status()
        if held.read_at is None or now - held.read_at > (ON_BY if on else OFF_BY):
            self.blame(f"{name} is switched {'on' if on else 'off'}, and its status was last read at {held.read_at} s")
        ready = self._ready_since.get(name)
        if on or held.accepted or ready is None or held.off_since is None:
            return
        if now - max(ready, held.off_since) > CONTRADICTED_FOR:
            self.blame(f"{name} is switched off, its status says that it is, and its Node is Ready")


class NotOnForLonger(Checker):
    """P2: a machine that no pod uses goes off in time, where nothing keeps it on and a leader had the time."""

    invariant = "P2"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._waits: dict[str, CountedWait] = {}  # by machine, since the last that kept it on
        self._terms = LeaderTerms()
        self._looked_at = recorder.now

    def leased(self, lease: Json) -> None:
        self.look(self.recorder.now + LOOKS_EVERY)
        self._terms.held(str(lease["spec"].get("holderIdentity") or ""), self.recorder.now)

    def look(self, now: float) -> None:
        if OWNED_PROVIDER not in self.recorder.providers or now - self._looked_at < LOOKS_EVERY:
            return
        passed, self._looked_at = self.recorder.now - self._looked_at, self.recorder.now
        on = {each.machine.product.sku: each for each in self.recorder.everything() if each.provider == OWNED_PROVIDER}
        for name in self._waits.keys() - on.keys():
            del self._waits[name]
        for name, rented in on.items():
            allowed = self._allowed(name, rented)
            if allowed is None:
                self._waits[name] = CountedWait()
            elif self._terms.passed(self._waits.setdefault(name, CountedWait()), passed) > allowed:
                self.blame(f"{name} has been on for longer than {allowed:.0f} s without a pod")

    def _allowed(self, name: str, rented: Rented) -> float | None:
        """How long it may be on without a pod; None: something keeps it on, or its start is not over."""
        local = self.recorder.world.api.local_api
        node, settings = local.get(NODE, "", name), _settings(self.recorder, name)
        claim = self.recorder.owner(rented)
        if rented.machine.phase is not Phase.RUNNING or not is_ready(node) or settings is None or claim is None:
            return None
        if settings.get("keepOn") or not self.recorder.can_be_listed(rented) or self._used(name):
            return None
        if any(PROTECTED in (each["metadata"].get("annotations") or {}) for each in (node, claim.obj) if each):
            return None
        idle = self._idle(claim)
        return None if idle is None else max(idle, _seconds(settings.get("minOnTime") or "10m") or 0.0) + SPARE

    def _idle(self, claim: RecordedRequest) -> float | None:
        """None: it is kept whether or not a pod uses it."""
        owner = next(iter(claim.obj["metadata"].get("ownerReferences") or ()), None)
        if owner is None:
            return claim.seconds("idleTimeout", default="30m")
        namespace = claim.obj["metadata"]["namespace"]
        pool = self.recorder.world.api.local_api.get(GPU_NODE_POOL, namespace, owner["name"])
        spec = (pool or {}).get("spec") or {}
        disruption = spec.get("disruption") or {}
        never = disruption.get("consolidationPolicy") == "Never" or disruption.get("budgets")
        if pool is None or spec.get("replicas") is not None or spec.get("mode") == "Observe" or never:
            return None
        return _seconds(disruption.get("consolidateAfter") or "10m")

    def _used(self, name: str) -> bool:
        """By any pod but those of DaemonSets: what stays for another reason is another checker's matter."""
        return any(
            pod["spec"].get("nodeName") == name
            and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed")
            and not any(each.get("kind") == "DaemonSet" for each in pod["metadata"].get("ownerReferences") or ())
            for pod in self.recorder.world.api.local_api.objects(POD)
        )


def _settings(recorder: Recorder, name: str) -> dict[str, Any] | None:
    """Of a machine, by the class that names it; None: none does."""
    for node_class in recorder.world.api.local_api.objects(GPU_NODE_CLASS):
        for provider in node_class["spec"].get("providers") or ():
            for machine in (provider.get("settings") or {}).get("machines") or ():
                if machine["name"] == name:
                    return dict(machine)
    return None


def _seconds(text: str) -> float | None:
    length = span(text, "")
    return None if length is NEVER else length.total_seconds()


def _machine_in(call: Call) -> str:
    return call.path.strip("/").partition("/")[0]


def _state(answer: Reply | Streaming | None) -> str | None:
    """None: the answer gives none."""
    if not isinstance(answer, Reply) or answer.status not in ACCEPTED or len(answer.content) > 4096:
        return None
    try:
        body = msgspec.json.decode(answer.content)
    except NO_JSON:
        return None
    state = body.get("state") if isinstance(body, dict) else None
    return state if state in STATES else None
