"""The only sender to a Headscale. The first call detects which API the server has; the result is cached."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit

from tgp.adapters.clouds.parse import whatever_came
from tgp.adapters.mesh.control_server import Control, ControlledMesh, Findings, Minted, secret_of
from tgp.adapters.mesh.headscale import wire
from tgp.adapters.mesh.membership import Member
from tgp.adapters.mesh.parse import words_of
from tgp.adapters.mesh.sender import ANSWER_BYTES, LIST_BYTES, MeshSender
from tgp.adapters.mesh.tailscale.client import V2Control, keyed
from tgp.adapters.mesh.tailscale.errors import TailscaleVerb, failure
from tgp.adapters.mesh.tailscale.server_flavour import ServerFlavour, headscale
from tgp.adapters.mesh.tailscale.tokens import ApiKey, OauthTokens
from tgp.core.model.mesh import MeshReport, MeshSettings, Secrets
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.http import Call, Http, HttpFactory, Reply
from tgp.ports.mesh import JoinRequest, MeshBusy, MeshError, MeshRefused

WANTED = (
    "headscale needs an API key (tailscaleConfig.apiKeySecretRef), an OAuth client (oauthCredentialsSecretRef, "
    "Headscale 0.30 or later), or a fixed auth key"
)
GONE_WORDS = ("not found",)  # how some of its 500 answers end
UNKNOWN_CALL = frozenset({404, 405, 501})  # a release without this call
IN_THE_CLEAR = "the login server is used without TLS: the API key and the machines' keys are sent unencrypted"
LOOPBACK = ("127.", "localhost", "[::1]")


class V1Control:
    """Implements `Control` in Headscale's own API v1."""

    def __init__(self, http: Http, key: Secret, settings: MeshSettings, dialect: ServerFlavour, clock: Clock) -> None:
        self._line = MeshSender(http, dialect.title)
        self._key = key
        self._settings = settings
        self._dialect = dialect
        self._clock = clock

    @property
    def title(self) -> str:
        return self._dialect.title

    @property
    def ids_are_its_own(self) -> bool:
        return self._dialect.ids_are_its_own

    async def tells_keys(self) -> bool:
        return True

    async def is_unused(self, key_id: str) -> bool:  # noqa: ARG002 - its nodes name the key that they joined with
        return False

    async def mint(self, join_request: JoinRequest, lasts: timedelta) -> Minted:  # noqa: ARG002 - a key has no description here
        ends_at = self._clock.now() + lasts
        reply = await self._send(wire.mint(ends_at, ephemeral=self._settings.ephemeral, tags=self._settings.tags))
        if reply.status != 200:
            raise self._failure(reply, TailscaleVerb.MINT)
        return wire.read_key(reply, self.title)

    async def members(self) -> tuple[Member, ...]:
        reply = await self._send(wire.nodes(), max_bytes=LIST_BYTES)
        if reply.status != 200:
            raise self._failure(reply, TailscaleVerb.LIST)
        return wire.read_nodes(reply, self.title)

    async def delete(self, device_id: str) -> None:
        reply = await self._send(wire.delete_node(device_id))
        if reply.status != 200 and not _is_gone(reply):
            raise self._failure(reply, TailscaleVerb.DELETE)

    async def revoke(self, key_id: str) -> None:
        """Expired, not deleted: a node whose key is deleted is not ephemeral any more, and would never be removed."""
        reply = await self._send(wire.expire_key(key_id))
        if reply.status != 200 and not _is_gone(reply):
            raise self._failure(reply, TailscaleVerb.REVOKE)

    async def forget(self, key_id: str) -> None:
        reply = await self._send(wire.delete_key(key_id))
        if reply.status != 200 and not _is_gone(reply) and reply.status not in UNKNOWN_CALL:
            raise self._failure(reply, TailscaleVerb.REVOKE)

    async def findings(self) -> Findings:
        await self.members()
        found = wire.read_version(await self._line.send(wire.version()))
        if found is not None and found < wire.OLDEST:
            wanted = ".".join(map(str, wire.OLDEST))
            told = ".".join(map(str, found))
            return Findings(
                (f"Headscale {told} is too old: upgrade to {wanted}, which has auth keys with tags and without a user",)
            )
        return Findings()

    async def _send(self, call: Call, *, max_bytes: int = ANSWER_BYTES) -> Reply:
        return await self._line.send(keyed(call, self._key), max_bytes=max_bytes)

    def _failure(self, reply: Reply, verb: TailscaleVerb) -> MeshError:
        return failure(reply, verb, self._dialect, (self._key,), self._settings.tags)


class DetectedApi:
    """Implements `Control` by the detected API of the server."""

    def __init__(self, http: Http, key: Secret, settings: MeshSettings, clock: Clock) -> None:
        self._http = http
        self._key = key
        self._settings = settings
        self._clock = clock
        self._dialect = headscale(settings)
        self._line = MeshSender(http, self._dialect.title)
        self._chosen: Control | None = None
        self._choosing = asyncio.Lock()

    @property
    def title(self) -> str:
        return self._dialect.title

    @property
    def ids_are_its_own(self) -> bool:
        return self._dialect.ids_are_its_own

    async def tells_keys(self) -> bool:
        return await (await self._control()).tells_keys()

    async def is_unused(self, key_id: str) -> bool:
        return await (await self._control()).is_unused(key_id)

    async def mint(self, join_request: JoinRequest, lasts: timedelta) -> Minted:
        return await (await self._control()).mint(join_request, lasts)

    async def members(self) -> tuple[Member, ...]:
        return await (await self._control()).members()

    async def delete(self, device_id: str) -> None:
        await (await self._control()).delete(device_id)

    async def revoke(self, key_id: str) -> None:
        await (await self._control()).revoke(key_id)

    async def forget(self, key_id: str) -> None:
        await (await self._control()).forget(key_id)

    async def findings(self) -> Findings:
        return await (await self._control()).findings()

    async def _control(self) -> Control:
        async with self._choosing:  # one probe for concurrent callers
            if self._chosen is None:
                self._chosen = await self._choose()
            return self._chosen

    async def _choose(self) -> Control:
        reply = await self._line.send(keyed(wire.probe(), self._key), max_bytes=LIST_BYTES)
        body = whatever_came(reply)
        if reply.status == 200 and isinstance(body, dict) and isinstance(body.get("keys"), list):
            return V2Control(self._http, ApiKey(self._key), self._settings, self._dialect)
        if reply.status == 404 and words_of(reply) is None and not _is_page(reply):
            return V1Control(self._http, self._key, self._settings, self._dialect, self._clock)
        if reply.ok or reply.status == 404:
            raise MeshBusy(f"{self.title} answered {reply.status} to the API probe, in an unknown format")
        raise failure(reply, TailscaleVerb.KEYS, self._dialect, (self._key,), self._settings.tags)


class HeadscaleMesh(ControlledMesh):
    """Behind the `Mesh` port. Raises MeshRefused if its URL, or a Secret of its settings, is missing."""

    def __init__(self, settings: MeshSettings, secrets: Secrets, dial: HttpFactory, clock: Clock) -> None:
        if urlsplit(settings.login_server).scheme not in ("http", "https"):
            raise MeshRefused("headscale needs the URL of the server in tailscaleConfig.loginServer")
        fixed_key = secret_of(secrets, settings.auth_key)
        super().__init__(settings, _control_of(settings, secrets, dial, clock), fixed_key, clock, wanted=WANTED)

    async def check(self) -> MeshReport:
        report = await super().check()
        return replace(report, notes=(*report.notes, IN_THE_CLEAR)) if _is_open(self.settings.login_server) else report


def _control_of(settings: MeshSettings, secrets: Secrets, dial: HttpFactory, clock: Clock) -> Control | None:
    api_key = secret_of(secrets, settings.api_key)
    client_id, client_secret = secret_of(secrets, settings.client_id), secret_of(secrets, settings.client_secret)
    http = dial(settings.login_server)
    if api_key is not None:
        return DetectedApi(http, api_key, settings, clock)
    if client_id is not None and client_secret is not None:
        dialect = headscale(settings)
        return V2Control(http, OauthTokens(http, dialect, client_id, client_secret, clock), settings, dialect)
    return None


def _is_gone(reply: Reply) -> bool:
    """In its own error format: a 404, or a 500 that means one."""
    words = (words_of(reply) or "").lower()
    return (reply.status == 404 and bool(words)) or (reply.status == 500 and words.endswith(GONE_WORDS))


def _is_page(reply: Reply) -> bool:
    return b"<" in reply.content[:256]


def _is_open(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and not parts.netloc.startswith(LOOPBACK)
