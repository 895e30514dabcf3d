"""Our credentials at the API server, kept fresh: tokens and certificates from files and plugins."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias

from tgp.adapters.kube.config import ClusterEntry, KubeconfigUser, Material, Plugin
from tgp.adapters.kube.credentials_plugin import BadAnswer, Issued, ask, read_answer
from tgp.ports.clock import Clock
from tgp.ports.exec import Exec, ProgramFailed

FILES_READ_EVERY = 60.0  # seconds; a projected token is replaced when a fifth of its life (an hour) is left
PLUGIN_WITHIN = timedelta(seconds=60)  # a plugin may talk to a slow identity provider
PLUGIN_REST = 10.0  # seconds between two runs of a plugin that failed, or whose answer was refused
RENEW_AHEAD = timedelta(seconds=60)  # before a credential expires, but
RENEW_AHEAD_SHARE = 10  # at most this part of its whole life: some live for seconds only

ReadFile: TypeAlias = Callable[[str], Awaitable[bytes]]


class NoCredentials(Exception):
    """There are no usable credentials. The text names the field and holds no secret."""


@dataclass(frozen=True, slots=True)
class Credential:
    """Equal ones are the same credential: after a refusal an equal one is not sent again."""

    authorization: str = field(default="", repr=False)  # the whole header; empty: none
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)


class CredentialSource(Protocol):
    async def current(self) -> Credential:
        """What to send now. Raises NoCredentials."""
        ...

    async def renew(self, refused: Credential) -> Credential:
        """A replacement for a refused credential; the same one if there is nothing newer."""
        ...


class Configured:
    """Tokens, passwords and certificates written in a configuration or in the files it names, which are read again."""

    def __init__(self, user: KubeconfigUser, clock: Clock, read: ReadFile) -> None:
        self._user = user
        self._clock = clock
        self._read = read
        self._held: Credential | None = None
        self._read_at = 0.0
        self._reading = asyncio.Lock()

    async def current(self) -> Credential:
        async with self._reading:
            if self._held is None or self._clock.boottime() - self._read_at >= FILES_READ_EVERY:
                await self._look()
            assert self._held is not None
            return self._held

    async def renew(self, refused: Credential) -> Credential:
        async with self._reading:
            if self._held == refused:
                await self._look()
            assert self._held is not None
            return self._held

    async def _look(self) -> None:
        """Read everything. A file that cannot be read now keeps its last content: rotation is not atomic everywhere."""
        try:
            found = await self._gather()
        except NoCredentials:
            if self._held is None:
                raise
        else:
            self._held = found
        self._read_at = self._clock.boottime()

    async def _gather(self) -> Credential:
        user = self._user
        certificate = await self._bytes_of(user.certificate)
        key = await self._bytes_of(user.key)
        return Credential(await self._authorization(), certificate, key)

    async def _authorization(self) -> str:
        user = self._user
        if user.token_file:
            content = await self._content(user.token_file, f"{user.where}.tokenFile")
            return f"Bearer {_token_text(content, user.token_file)}"
        if user.token:
            return f"Bearer {user.token}"
        if user.username:
            return "Basic " + base64.b64encode(f"{user.username}:{user.password}".encode()).decode()
        return ""

    async def _bytes_of(self, material: Material | None) -> bytes:
        if material is None:
            return b""
        return material.data or await self._content(material.path, material.where)

    async def _content(self, path: str, where: str) -> bytes:
        try:
            content = await self._read(path)
        except OSError as error:
            raise NoCredentials(f"{where}: {path}: {error.strerror or 'cannot be read'}") from None
        if not content.strip():
            raise NoCredentials(f"{where}: {path}: is empty")
        return content


def _token_text(content: bytes, path: str) -> str:
    try:
        token = content.decode("ascii").strip()
    except UnicodeDecodeError:
        raise NoCredentials(f"{path}: contains no token") from None
    if not token.isprintable() or " " in token:
        raise NoCredentials(f"{path}: contains no token")
    return token


class FromPlugin:
    """Runs a plugin, caches its answer until shortly before it expires or is refused, and never runs two at once."""

    def __init__(
        self, plugin: Plugin, cluster: ClusterEntry, clock: Clock, programs: Exec, *, authority: bytes = b""
    ) -> None:
        self._plugin = plugin
        self._clock = clock
        self._programs = programs
        self._env = ask(plugin, cluster, authority)
        self._flight: asyncio.Task[Credential] | None = None
        self._held: Credential | None = None
        self._renew_at: datetime | None = None  # None: valid until refused
        self._rests_until = 0.0  # Clock.boottime
        self._failure = ""

    async def current(self) -> Credential:
        if self._held is not None and (self._renew_at is None or self._clock.now() < self._renew_at):
            return self._held
        if self._failure and self._clock.boottime() < self._rests_until:
            raise NoCredentials(self._failure)
        return await self._asked()

    async def renew(self, refused: Credential) -> Credential:
        if self._held != refused:
            return await self.current()
        if self._clock.boottime() < self._rests_until:
            return refused
        return await self._asked()

    async def _asked(self) -> Credential:
        """Join the run in progress, or start one. It continues when a caller is cancelled: others wait for it too."""
        if self._flight is None:
            self._flight = asyncio.ensure_future(self._ask())
            self._flight.add_done_callback(self._landed)
        return await asyncio.shield(self._flight)

    def _landed(self, flight: "asyncio.Task[Credential]") -> None:
        self._flight = None
        if not flight.cancelled():
            flight.exception()  # retrieved, also when no caller waits any more

    async def _ask(self) -> Credential:
        argv = (self._plugin.command, *self._plugin.args)
        try:
            issued = read_answer(await self._programs.run(argv, self._env, PLUGIN_WITHIN), self._plugin)
        except (ProgramFailed, BadAnswer) as error:
            hint = f" ({self._plugin.install_hint})" if self._plugin.install_hint else ""
            self._failure = f"{self._plugin.where}: {error}{hint}"
            raise NoCredentials(self._failure) from None
        finally:
            self._rests_until = self._clock.boottime() + PLUGIN_REST
        self._failure = ""
        self._held = Credential(f"Bearer {issued.token}" if issued.token else "", issued.certificate, issued.key)
        self._renew_at = _renewal(issued, self._clock.now())
        return self._held


def _renewal(issued: Issued, now: datetime) -> datetime | None:
    if issued.expires_at is None:
        return None
    life = issued.expires_at - now
    if life <= timedelta():  # a clock is wrong: let the server decide, and do not run the plugin for every call
        return now + timedelta(seconds=PLUGIN_REST)
    return issued.expires_at - min(RENEW_AHEAD, life / RENEW_AHEAD_SHARE)
