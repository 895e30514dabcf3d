"""What both control servers have in common: what goes wrong, in which order, and then the server's own route.

A server is a `Handler`: mounted on the simulated network or on a loopback port.
"""

from abc import ABC, abstractmethod
from datetime import timedelta
from random import Random

from tgp.ports.clock import Clock
from tgp.ports.http import Call, HangUp, Pairs, Reply
from tgp.sim.mesh.mesh_faults import MeshFault, MeshFaults, MeshVerb
from tgp.sim.mesh.tailnet import Tailnet

JSON: Pairs = (("Content-Type", "application/json"),)
PAGE = b"<!DOCTYPE html><html><body>Just a moment...</body></html>"
HUGE_BYTES = 9 << 20
RETRY_AFTER = timedelta(seconds=17)


class ControlServer(ABC):
    def __init__(self, clock: Clock, seed: int | str, tailnet: Tailnet) -> None:
        self.clock = clock
        self.tailnet = tailnet
        self.faults = MeshFaults(Random(f"{seed}/mesh mishaps"))
        self.calls: dict[MeshVerb, int] = dict.fromkeys(MeshVerb, 0)

    async def handle(self, call: Call) -> Reply:
        """One call, answered at once: nothing here waits, so calls do not overlap."""
        verb = self.verb_of(call)
        self.calls[verb] += 1
        self.tailnet.advance()
        mesh_fault = self.faults.draw(verb)
        early = self._early(call, verb, mesh_fault)
        if early is not None:
            return early
        reply = self.route(call, verb)
        match mesh_fault:
            case MeshFault.HANG_UP_AFTER:
                raise HangUp
            case MeshFault.ERROR_AFTER:
                return self.failure()
            case MeshFault.TRUNCATED if reply.ok:
                return Reply(reply.status, reply.content[: len(reply.content) // 2], reply.headers)
            case _:
                return reply

    def _early(self, call: Call, verb: MeshVerb, mesh_fault: MeshFault | None) -> Reply | None:
        match mesh_fault:
            case MeshFault.HANG_UP:
                raise HangUp
            case MeshFault.ERROR:
                return self.failure()
            case MeshFault.BUSY:
                return self.busy()
            case MeshFault.HTML:
                return Reply(200, PAGE, (("Content-Type", "text/html"),))
            case MeshFault.LOST_SERVER:
                return Reply(404, PAGE, (("Content-Type", "text/html"),))
            case MeshFault.EMPTY_BODY:
                return Reply(200, b"", JSON)
            case MeshFault.GARBAGE:
                return Reply(200, b'[["unexpected"], null, 7]', JSON)
            case MeshFault.HUGE:
                return Reply(200, b" " * HUGE_BYTES, JSON)
            case MeshFault.TOKENS_ENDED:
                self.end_tokens()
            case MeshFault.DELETE_UNKNOWN:
                self.route(call, verb)
                return self.unknown()
            case _:
                pass
        return None

    @abstractmethod
    def verb_of(self, call: Call) -> MeshVerb: ...

    @abstractmethod
    def route(self, call: Call, verb: MeshVerb) -> Reply: ...

    @abstractmethod
    def busy(self) -> Reply:
        """429 with Retry-After."""

    @abstractmethod
    def failure(self) -> Reply:
        """5xx."""

    @abstractmethod
    def unknown(self) -> Reply:
        """404 in its own words."""

    def end_tokens(self) -> None:  # noqa: B027 - not every server gives out tokens
        """What was given out so far is void."""
