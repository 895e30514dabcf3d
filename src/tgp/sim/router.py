"""The simulated network: every process has its own path to every endpoint, with its own faults.

A call lives in two places. What its process does (connecting, checking `not_after` when the bytes are written, waiting)
runs as that process and stops when it stops. What has left belongs to the network: it arrives, happens and is answered
whether or not the caller is still there to receive it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from random import Random

from tgp.ports.clock import Clock
from tgp.ports.http import Call, Handler, HangUp, Http, NeverLeft, NoAnswer, Reply, Stream, Streaming, TooLarge
from tgp.sim.deadline import CallDeadline
from tgp.sim.entropy import stream
from tgp.sim.faults import AFTER_IT_HAPPENED, NONE, Fault, Faults
from tgp.sim.loop import VirtualLoop
from tgp.sim.pipe import Pipe, PipedStream
from tgp.sim.plans import Act, Effect, FaultPlan
from tgp.sim.process import Host
from tgp.sim.trace import RunTrace

STREAM_TROUBLE_AFTER = 120.0  # seconds, the mean: long enough for a watch to be in use, short enough to happen
LAGGING_BY = 20.0  # seconds at most: below the patience of a client that watches for silence
SLOW_BEYOND = 30.0  # seconds at most that a slow answer comes too late
BREAK_NOTICED = (0.0, 5.0)  # seconds until a broken connection is noticed, when it is
PAUSE_AT_EFFECT = 45.0  # seconds: three times a lease of 15 s, so leadership is surely lost
FREEZE_AT_EFFECT = 50.0  # seconds: below the 60 s after which a client must notice a half-open watch

BUSY_REPLY = Reply(429, b"Too many requests, please try again later.\n", (("Retry-After", "1"),))
ERROR_REPLY = Reply(500, b"Internal Server Error\n", (("Content-Type", "text/plain; charset=utf-8"),))
PROXY_REPLY = Reply(
    502,
    b"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body><h1>502 Bad Gateway</h1></body>\r\n</html>\r\n",
    (("Content-Type", "text/html"),),
)

REFUSALS = {Fault.BUSY: BUSY_REPLY, Fault.ERROR: ERROR_REPLY, Fault.PROXY: PROXY_REPLY}
REFUSED_AFTER = 0.001  # seconds: a client that retries at once must not stop the clock


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds each way, drawn evenly."""

    least: float = 0.001
    most: float = 0.010
    # with faults, the chance that a gateway closes the connection of an order and forwards it later …
    held_up: float = 0.0
    latest: float = 0.0  # … up to so many seconds after it left

    def draw(self, luck: Random) -> float:
        return self.least if self.least == self.most else luck.uniform(self.least, self.most)


NO_LATENCY = Latency(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    handler: Handler
    latency: Latency


class Exchange:
    """One call that was sent, until its answer is received or no caller waits for it."""

    def __init__(self, endpoint: Endpoint, call: Call, host: Host | None, fault: Fault | None) -> None:
        self.endpoint = endpoint
        self.call = call
        self.host = host
        self.who = host.name if host else "user"
        self.fault = fault
        self.plan: FaultPlan | None = None
        self.answer: asyncio.Future[Reply | Streaming] = asyncio.get_running_loop().create_future()

    @property
    def heard(self) -> bool:
        return not self.answer.done() and not (self.host is not None and self.host.gone)


class Tap:
    """Sees every call: for recorders, which change nothing. A visitor's calls are not reported."""

    def tried(self, host: Host, endpoint: str, call: Call) -> None:
        """A process set out to send; nothing has left yet."""

    def written(self, exchange: Exchange) -> None:
        """The bytes of a call have left its process."""

    def served(self, exchange: Exchange, answer: Reply | Streaming | None) -> None:
        """It was answered (whether that is heard is another matter); None: it was lost, or the other side closed the
        connection.
        """


class Network:
    def __init__(self, loop: VirtualLoop, trace: RunTrace, seed: int | str) -> None:
        self.faults: Faults = NONE
        self.plan: FaultPlan | None = None
        self.aim: Callable[[str], Act | None] = lambda _endpoint: None
        """Draws what strikes exactly at a side effect there, where no plan is meant for one."""
        self.on_partition: Callable[[], None] = lambda: None
        """Called when a process is cut off, or is back."""
        self.effects: list[Effect] = []
        self.taps: list[Tap] = []
        self._loop = loop
        self.trace = trace
        self._seed = seed
        self._endpoints: dict[str, Endpoint] = {}
        self._luck: dict[str, Random] = {}
        self._cut_off: set[tuple[str, str]] = set()  # only asked, never iterated for a decision
        self._pipes: dict[Pipe, tuple[str, str]] = {}
        self._counts: dict[str, int] = {}

    def mount(self, name: str, handler: Handler, latency: Latency | None = None) -> None:
        """From now on `name` is answered by `handler`; mounting again replaces it."""
        self._endpoints[name] = Endpoint(name, handler, latency or Latency())

    def unmount(self, name: str) -> None:
        """No server listens there any more: connections are refused."""
        self._endpoints.pop(name, None)

    def http(self, host: Host | None, endpoint: str, clock: Clock) -> "RoutedHttp":
        """The way from `host` to `endpoint`; no host: a visitor's, on which nothing ever breaks."""
        return RoutedHttp(self, host, endpoint, clock)

    # Faults injected by tests.

    def partition(self, process: str, endpoint: str) -> None:
        """Packets between the two vanish, both ways, until `heal`; streams that stand go silent for good."""
        self.trace.note(process, "cut-off", endpoint)
        self._cut_off.add((process, endpoint))
        for pipe, ends in self._pipes.items():
            if ends == (process, endpoint):
                pipe.silence()
        self.on_partition()

    def heal(self, process: str, endpoint: str) -> None:
        if (process, endpoint) in self._cut_off:
            self.trace.note(process, "healed", endpoint)
            self._cut_off.discard((process, endpoint))
            self.on_partition()

    def heal_all(self) -> None:
        for process, endpoint in sorted(self._cut_off):
            self.heal(process, endpoint)

    def is_cut_off(self, process: str, endpoint: str) -> bool:
        return (process, endpoint) in self._cut_off

    def endpoints(self) -> list[str]:
        return sorted(self._endpoints)

    # What the ways use.

    def luck(self, who: str) -> Random:
        """Each process has its own, so that one more call of one process does not change another's faults."""
        found = self._luck.get(who)
        if found is None:
            found = self._luck[who] = stream(self._seed, f"network/{who}")
        return found

    def endpoint(self, name: str) -> Endpoint | None:
        return self._endpoints.get(name)

    def count_effect(self, host: Host, endpoint: str, call: Call) -> FaultPlan | None:
        """Number this side effect; the plan, if it is the one aimed at."""
        number = self._counts.get(host.name, 0) + 1
        self._counts[host.name] = number
        self.effects.append(Effect(host.name, number, endpoint, call.method, call.path))
        if self.plan is not None and (self.plan.process, self.plan.number) == (host.name, number):
            self.trace.note(host.name, "aimed", self.plan.act, number)
            return self.plan
        act = self.aim(endpoint)
        if act is None:
            return None
        self.trace.note(host.name, "aimed", act, number)
        return FaultPlan(host.name, number, act)

    def transmit(self, exchange: Exchange) -> None:
        """The bytes are written. From here on it happens without its sender."""
        luck = self.luck(exchange.who)
        latency = exchange.endpoint.latency
        delay = latency.draw(luck)
        if exchange.host is not None:
            for tap in self.taps:
                tap.written(exchange)
        stormy = latency.held_up > 0 and self.faults != NONE
        if stormy and exchange.call.changes_things and luck.random() < latency.held_up:
            delay = luck.uniform(latency.most, latency.latest)
            self.trace.note(exchange.who, "held-up", _summary(exchange))
            self._break(exchange)
        self._loop.call_later(delay, self._arrive, exchange, context=Context())

    def _tell_served(self, exchange: Exchange, answer: Reply | Streaming | None) -> None:
        if exchange.host is not None:
            for tap in self.taps:
                tap.served(exchange, answer)

    def _arrive(self, exchange: Exchange) -> None:
        lost = exchange.fault is Fault.LOST or self.is_cut_off(exchange.who, exchange.endpoint.name)
        if lost:
            self.trace.note(exchange.who, "fault", Fault.LOST, _summary(exchange))
            self._tell_served(exchange, None)
            self._break(exchange)
            return
        self._loop.create_task(self._serve(exchange), name="serve", context=Context())

    async def _serve(self, exchange: Exchange) -> None:
        fault = exchange.fault
        refusal = REFUSALS.get(fault) if fault is not None else None
        if refusal is not None:
            self.trace.note(exchange.who, "fault", fault, _summary(exchange))
            self._tell_served(exchange, refusal)
            self._answer(exchange, refusal)
            return
        try:
            answer = await exchange.endpoint.handler(exchange.call)
        except HangUp:
            self.trace.note(exchange.who, "hang-up", _summary(exchange))
            self._tell_served(exchange, None)
            self._break(exchange)
            return
        if fault is Fault.TWICE and not isinstance(answer, Streaming):
            answer = await exchange.endpoint.handler(exchange.call)
        self._tell_served(exchange, answer)
        self.trace.note(exchange.who, str(answer.status), _summary(exchange))
        if fault in AFTER_IT_HAPPENED or fault is Fault.TWICE:
            self.trace.note(exchange.who, "fault", fault, _summary(exchange))
        if exchange.plan is not None and exchange.plan.act is Act.CRASH_AFTER and exchange.host is not None:
            exchange.host.process.crash()
        self._answer_after_it_happened(exchange, answer)

    def _answer_after_it_happened(self, exchange: Exchange, answer: Reply | Streaming) -> None:
        match exchange.fault:
            case Fault.LOST_ANSWER:
                self._break(exchange)
            case Fault.ERROR_AFTER:
                self._answer(exchange, ERROR_REPLY)
            case Fault.PROXY_AFTER:
                self._answer(exchange, PROXY_REPLY)
            case Fault.SLOW:
                late = self.luck(exchange.who).uniform(0.1, SLOW_BEYOND)
                self._answer(exchange, answer, exchange.call.timeout.total_seconds() + late)
            case _:
                self._answer(exchange, answer)

    def _answer(self, exchange: Exchange, answer: Reply | Streaming, extra: float = 0.0) -> None:
        delay = exchange.endpoint.latency.draw(self.luck(exchange.who)) + extra
        if delay:
            self._loop.call_later(delay, self._hear, exchange, answer, context=Context())
        else:
            self._hear(exchange, answer)

    def _hear(self, exchange: Exchange, answer: Reply | Streaming) -> None:
        if exchange.heard and not self.is_cut_off(exchange.who, exchange.endpoint.name):
            exchange.answer.set_result(answer)
        elif isinstance(answer, Streaming):
            self._loop.create_task(_discard(answer), name="discard", context=Context())

    def _break(self, exchange: Exchange) -> None:
        """The connection is gone: its end is noticed soon, or only by the caller's timeout."""
        luck = self.luck(exchange.who)
        noticed, delay = luck.random() < 0.5, luck.uniform(*BREAK_NOTICED)
        if noticed and not self.is_cut_off(exchange.who, exchange.endpoint.name):
            self._loop.call_later(delay, _notice, exchange, context=Context())

    def open_pipe(self, exchange: Exchange, answer: Streaming) -> Pipe:
        host, luck = exchange.host, self.luck(exchange.who)
        fault = self.faults.of_a_stream(luck) if host is not None else None
        lag = exchange.endpoint.latency.draw(luck) + (luck.uniform(0, LAGGING_BY) if fault is Fault.LAGGING else 0)
        pipe = Pipe(answer, lag=lag, frozen_until=lambda: host.frozen_until if host else 0.0)
        self._pipes[pipe] = (exchange.who, exchange.endpoint.name)
        if host is not None:
            host.on_cut(pipe, lambda: self.close_pipe(host, pipe))
        if fault is not None and fault is not Fault.LAGGING:
            self._loop.call_later(
                luck.expovariate(1 / STREAM_TROUBLE_AFTER), self._doom, pipe, fault, exchange.who, context=Context()
            )
        return pipe

    def _doom(self, pipe: Pipe, fault: Fault, who: str) -> None:
        if pipe in self._pipes:
            self.trace.note(who, "fault", fault)
            pipe.doom(fault)

    def close_pipe(self, host: Host | None, pipe: Pipe) -> None:
        if self._pipes.pop(pipe, None) is not None:
            pipe.hang_up()
        if host is not None:
            host.forget(pipe)


class RoutedHttp:
    """The Http of one process to one endpoint."""

    def __init__(self, network: Network, host: Host | None, endpoint: str, clock: Clock) -> None:
        self._network = network
        self._host = host
        self._who = host.name if host else "user"
        self._endpoint = endpoint
        self._clock = clock

    async def send(self, call: Call) -> Reply:
        loop = asyncio.get_running_loop()
        began = loop.time()
        exchange, answer = await self._exchange(call)
        if isinstance(answer, Reply):
            if len(answer.content) > call.max_bytes:
                raise TooLarge(f"{self._endpoint} answered with more than {call.max_bytes} bytes")
            return answer
        left = began + call.timeout.total_seconds() - loop.time()
        try:
            async with asyncio.timeout(left), self._piped(exchange, answer, call, call.timeout) as piped:
                return Reply(answer.status, await piped.rest(), answer.headers)
        except TimeoutError as error:
            raise NoAnswer(f"{self._endpoint} did not finish its answer within {call.timeout}") from error

    @asynccontextmanager
    async def stream(self, call: Call, *, idle: timedelta) -> AsyncIterator[Stream]:
        exchange, answer = await self._exchange(call)
        streaming = answer if isinstance(answer, Streaming) else _as_stream(answer)
        async with self._piped(exchange, streaming, call, idle) as piped:
            yield piped

    @asynccontextmanager
    async def _piped(
        self, exchange: Exchange, answer: Streaming, call: Call, idle: timedelta
    ) -> AsyncIterator[PipedStream]:
        pipe = self._network.open_pipe(exchange, answer)
        try:
            yield PipedStream(answer, pipe, idle=idle, max_bytes=call.max_bytes)
        finally:
            self._network.close_pipe(self._host, pipe)

    async def _exchange(self, call: Call) -> tuple[Exchange, Reply | Streaming]:
        """At most one delivery, and the head of its answer."""
        deadline = CallDeadline(call.timeout.total_seconds())
        left: Exchange | None = None
        try:
            left = await self._leave(call, deadline)
            return left, await deadline.wait_for(left.answer)
        except TimeoutError as error:
            if left is None:
                raise NeverLeft(f"no connection to {self._endpoint} within {call.timeout}") from error
            raise NoAnswer(f"{self._endpoint} did not answer within {call.timeout}") from error
        finally:
            deadline.end()

    async def _leave(self, call: Call, deadline: CallDeadline) -> Exchange:
        """All that the process itself does until the bytes are written."""
        host, network = self._host, self._network
        if host is not None and host.gone:
            await host.for_ever()
        if host is not None:
            for tap in network.taps:
                tap.tried(host, self._endpoint, call)
        self._check_deadline(call)
        plan = network.count_effect(host, self._endpoint, call) if host is not None and call.changes_things else None
        if plan is not None and host is not None:
            await begin(plan, host)
        endpoint = network.endpoint(self._endpoint)
        fault = self._fault(plan)
        if endpoint is None or fault is Fault.REFUSED:
            if fault is not None:
                network.trace.note(self._who, "fault", fault, call.method, call.path)
            await asyncio.sleep(REFUSED_AFTER)
            raise NeverLeft(f"{self._endpoint} refused the connection")
        if network.is_cut_off(self._who, self._endpoint):
            await deadline.wait_for(asyncio.get_running_loop().create_future())  # in vain: no packet comes back
        self._check_deadline(call)
        exchange = Exchange(endpoint, call, host, fault)
        exchange.plan = plan
        network.transmit(exchange)
        return exchange

    def _fault(self, plan: FaultPlan | None) -> Fault | None:
        if self._host is None:
            return None
        if plan is not None:
            return Fault.LOST_ANSWER if plan.act is Act.LOST_ANSWER else None
        return self._network.faults.of_a_call(self._network.luck(self._who))

    def _check_deadline(self, call: Call) -> None:
        if call.not_after is not None and self._clock.boottime() > call.not_after:
            raise NeverLeft(f"too late to send {call.method} to {self._endpoint}")


async def begin(plan: FaultPlan, host: Host) -> None:
    """What a plan does to the process whose call is about to leave."""
    match plan.act:
        case Act.CRASH_BEFORE:
            host.process.crash()
            await host.for_ever()
        case Act.PAUSE:
            host.process.pause(PAUSE_AT_EFFECT)
            await asyncio.sleep(0)  # comes back when the process does
        case Act.FREEZE:
            host.frozen_until = asyncio.get_running_loop().time() + FREEZE_AT_EFFECT
        case Act.CRASH_AFTER | Act.LOST_ANSWER:
            pass  # the network does these, once it happened


def _as_stream(reply: Reply) -> Streaming:
    async def pieces() -> AsyncIterator[bytes]:
        yield reply.content

    return Streaming(reply.status, reply.headers, pieces())


async def _discard(answer: Streaming) -> None:
    close = getattr(answer.pieces, "aclose", None)
    if close is not None:
        await close()


def _notice(exchange: Exchange) -> None:
    if exchange.heard:
        exchange.answer.set_exception(NoAnswer(f"the connection to {exchange.endpoint.name} broke"))


def _summary(exchange: Exchange) -> str:
    """A text that distinguishes two calls without repeating their content."""
    call = exchange.call
    content = blake2b(repr(call.query).encode() + call.body, digest_size=6)
    return f"{exchange.endpoint.name} {call.method} {call.path} {content.hexdigest()}"


_: type[Http] = RoutedHttp
