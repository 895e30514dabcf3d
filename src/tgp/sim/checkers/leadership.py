"""The invariants about who may act, and about time: I19 and I20."""

from datetime import datetime, timedelta

import msgspec

from tgp.api.resource import POD
from tgp.sim.apiserver.json_value import Json
from tgp.sim.checkers.recorded import RecordedRequest
from tgp.sim.checkers.recorder import Checker, Recorder
from tgp.sim.process import Host
from tgp.sim.router import Exchange
from tgp.sim.world import KUBERNETES

TERM = 10.0  # seconds from a renewal: a leader's own term, below the 15 s after which another may begin
SLACK = 90.0  # seconds that a stored moment may be off from the truth: whole seconds, clocks within a minute
PROVIDER_ENDS_WITHIN = 3_600.0  # seconds after its drain: when a machine may be ended ahead of its provider
EVENTS = "/events"
LEASES = "/leases"
GPU = "nvidia.com/gpu"


class OneLeader(Checker):
    """I19: only the process that holds the Lease changes anything, and never after its own term; Events aside."""

    invariant = "I19"

    def __init__(self, recorder: Recorder, term: float = TERM) -> None:
        super().__init__(recorder)
        self._term = term
        self._identities: dict[str, Host] = {}
        self._holder: str | None = None  # None: there was never a Lease
        self._renewed_at = 0.0
        self.hand_overs = 0

    def changing(self, exchange: Exchange) -> None:
        call, host = exchange.call, exchange.host
        assert host is not None, "calls of visitors are not reported"
        if exchange.endpoint.name == KUBERNETES:
            if LEASES in call.path:
                self._learn(host, call.body)
                return
            if EVENTS in call.path:
                return
        elif not self.recorder.pays(exchange.endpoint.name, call.method, call.path):
            return  # a standby reads the market, too
        if self._holder is None:
            return  # a world without election
        holder = self._identities.get(self._holder)
        what = f"{host.name}/{host.number} sent {call.method} {exchange.endpoint.name}{call.path}"
        if holder is not host:
            self.blame(f"{what} while {self._holder or 'no replica'} held the Lease")
        elif self.recorder.now - self._renewed_at > self._term:
            self.blame(f"{what}, {self.recorder.now - self._renewed_at:.1f} s after its last renewal")

    def leased(self, lease: Json) -> None:
        self.held(str(lease["spec"].get("holderIdentity") or ""))

    def held(self, holder: str, host: Host | None = None, renewed_at: float | None = None) -> None:
        """The Lease was written in this name; `host`: the process with that name, where no call showed it.

        `renewed_at`: when, in loop time; None: now.
        """
        if host is not None:
            self._identities[holder] = host
        self.hand_overs += self._holder is not None and holder not in ("", self._holder)
        self._holder = holder
        self._renewed_at = self.recorder.now if renewed_at is None else renewed_at

    def _learn(self, host: Host, body: bytes) -> None:
        try:
            identity = msgspec.json.decode(body)["spec"]["holderIdentity"]
        except (msgspec.DecodeError, KeyError, TypeError):
            return
        if identity:
            self._identities[identity] = host


class TrueTime(Checker):
    """I20: whatever a process believes the time to be, nothing ends before its true time: no life, no idleness."""

    invariant = "I20"

    def __init__(self, recorder: Recorder) -> None:
        super().__init__(recorder)
        self._working: dict[str, dict[str, None]] = {}  # by Node: pods that run there and asked for a GPU
        self._worked_until: dict[str, float] = {}
        for pod in recorder.world.api.local_api.objects(POD):
            self.worked(None, pod)

    def worked(self, before: Json | None, after: Json | None) -> None:
        pod = after or before
        assert pod is not None, "a commit is about something"
        if not _asks_for_gpu(pod):
            return
        uid, node = pod["metadata"]["uid"], pod["spec"].get("nodeName") or ""
        if after is not None and node and (after.get("status") or {}).get("phase") == "Running":
            self._working.setdefault(node, {})[uid] = None
        elif self._working.get(node, {}).pop(uid, 0) is None:
            self._worked_until[node] = self.recorder.now

    def claimed(self, before: RecordedRequest | None, after: RecordedRequest | None) -> None:
        if after is None or after.condition("Terminating").get("status") != "True":
            return
        if before is not None and before.condition("Terminating").get("status") == "True":
            return
        reason = after.condition("Terminating").get("reason")
        if reason == "Expired":
            self._judge_age(after)
        elif reason == "Idle":
            self._judge_idleness(after)

    def _judge_age(self, claim: RecordedRequest) -> None:
        life = claim.seconds("maxLifetime", "ttl", default="24h")
        age = self._age(claim)
        if (life is None or age < life - SLACK) and not self._ends_anyway(claim):
            self.blame(f"{claim.name} ends as Expired after {age:.0f} s of its {life or float('inf'):.0f} s")

    def _ends_anyway(self, claim: RecordedRequest) -> bool:
        """Its provider ends the machine, or its host takes it back, shortly after a drain that begins now."""
        drain = claim.seconds("terminationGracePeriod", default="1h") or 0.0
        by = self.recorder.world.clock.now() + timedelta(seconds=drain + PROVIDER_ENDS_WITHIN)
        machines = [rented.machine for rented in self.recorder.of_uid(claim.uid) if rented.machine.alive]
        ends = [each.running_at + each.max_run for each in machines if each.running_at and each.max_run is not None]
        ends += [end for each in machines if (end := {**each.product.detail, **each.detail}.get("ends_at")) is not None]
        ends += [each.ends_at for each in machines if each.ends_at is not None]
        return any(each < by for each in ends)

    def _age(self, claim: RecordedRequest) -> float:
        """From its making, in true time: the API server's clock is the world's."""
        made = datetime.fromisoformat(claim.obj["metadata"]["creationTimestamp"])
        return (self.recorder.world.clock.now() - made).total_seconds()

    def _judge_idleness(self, claim: RecordedRequest) -> None:
        allowed = claim.seconds("idleTimeout", default="30m")
        made_at = min((one.made_at for one in self.recorder.of_uid(claim.uid)), default=0.0)
        if self._working.get(claim.node):
            self.blame(
                f"{claim.name} ends as Idle while {len(self._working[claim.node])} pods use GPUs on {claim.node}"
            )
            return
        idle = self.recorder.now - max(self._worked_until.get(claim.node, 0.0), made_at)
        if allowed is None or idle < allowed - SLACK:
            self.blame(f"{claim.name} ends as Idle after {idle:.0f} s of its {allowed or float('inf'):.0f} s")


def _asks_for_gpu(pod: Json) -> bool:
    return any(
        GPU in ((container.get("resources") or {}).get(part) or {})
        for container in pod["spec"].get("containers", ())
        for part in ("limits", "requests")
    )
