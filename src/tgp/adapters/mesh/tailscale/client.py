"""The only sender to Tailscale's API, or to a server that speaks it. `wire` has the calls and their answers."""

from dataclasses import replace
from datetime import timedelta

from tgp.adapters.mesh.control_server import ControlledMesh, Findings, Minted, secret_of
from tgp.adapters.mesh.membership import Member
from tgp.adapters.mesh.parse import mapping_of, rows_of, words_of
from tgp.adapters.mesh.sender import ANSWER_BYTES, LIST_BYTES, MeshSender
from tgp.adapters.mesh.tailscale import wire
from tgp.adapters.mesh.tailscale.errors import TailscaleVerb, failure
from tgp.adapters.mesh.tailscale.server_flavour import AUTH_KEYS, DEVICES, TAILSCALE_API, ServerFlavour, tailscale
from tgp.adapters.mesh.tailscale.tokens import OauthTokens, TokenScopes, TokenSource
from tgp.core.model.mesh import MeshSettings, Secrets
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.http import Call, Http, HttpFactory, Reply
from tgp.ports.mesh import JoinRequest, MeshBusy, MeshError, MeshRefused

ALL = "all"
ENOUGH = {  # any of these; `devices` is the older, broader scope that clients may still have
    AUTH_KEYS: frozenset({AUTH_KEYS, "devices", ALL}),
    DEVICES: frozenset({DEVICES, "devices", ALL}),
}
USES = {AUTH_KEYS: "create and revoke auth keys", DEVICES: "list and remove devices"}

WANTED = "tailscale needs an OAuth client (tailscaleConfig.oauthCredentialsSecretRef), or a fixed auth key"


class V2Control:
    """Implements `Control` in Tailscale's API v2."""

    def __init__(self, http: Http, passes: TokenSource, settings: MeshSettings, dialect: ServerFlavour) -> None:
        self._line = MeshSender(http, dialect.title)
        self._passes = passes
        self._settings = settings
        self._dialect = dialect

    @property
    def title(self) -> str:
        return self._dialect.title

    @property
    def ids_are_its_own(self) -> bool:
        return self._dialect.ids_are_its_own

    async def tells_keys(self) -> bool:
        return False

    async def is_unused(self, key_id: str) -> bool:
        reply = await self._send(wire.key(key_id))
        if _is_gone(reply):
            return False
        if reply.status != 200:
            raise self._failure(reply, TailscaleVerb.KEYS)
        return wire.read_unused(reply, self.title)

    async def mint(self, join_request: JoinRequest, lasts: timedelta) -> Minted:
        tags = self._settings.tags
        reply = await self._send(wire.mint(join_request, lasts, ephemeral=self._settings.ephemeral, tags=tags))
        if not reply.ok:
            raise self._failure(reply, TailscaleVerb.MINT)
        return wire.read_key(reply, self.title)

    async def members(self) -> tuple[Member, ...]:
        reply = await self._send(wire.devices(), max_bytes=LIST_BYTES)
        if reply.status != 200:
            raise self._failure(reply, TailscaleVerb.LIST)
        return wire.read_devices(reply, self.title)

    async def delete(self, device_id: str) -> None:
        reply = await self._send(wire.delete_device(device_id))
        if reply.status == 501 and words_of(reply) is not None:
            raise MeshRefused(
                f"device {device_id} belongs to another tailnet than {self._dialect.credentials}: were the credentials "
                "replaced? Remove the device by hand, or restore the old credentials"
            )
        if not reply.ok and not _is_gone(reply):
            raise self._failure(reply, TailscaleVerb.DELETE)

    async def revoke(self, key_id: str) -> None:
        reply = await self._send(wire.delete_key(key_id))
        if not reply.ok and not _is_gone(reply):
            raise self._failure(reply, TailscaleVerb.REVOKE)

    async def forget(self, key_id: str) -> None:
        """The server deletes revoked keys itself."""

    async def findings(self) -> Findings:
        """Two read-only calls first: they may fetch a new token, and with it its scopes."""
        refused: list[str] = []
        for call, verb, name in (
            (wire.devices(), TailscaleVerb.LIST, "devices"),
            (wire.keys(), TailscaleVerb.KEYS, "keys"),
        ):
            reply = await self._send(call, max_bytes=LIST_BYTES)
            if reply.status == 200:
                rows_of(mapping_of(reply, self.title, verb), name, self.title)
                continue
            error = self._failure(reply, verb)
            if not isinstance(error, MeshRefused):
                raise error
            refused.append(str(error))
        grant = await self._passes.grant()
        found = judged(grant, self._settings.tags, self._dialect) if grant is not None else Findings()
        return Findings(found.problems or tuple(refused), found.notes)

    async def _send(self, call: Call, *, max_bytes: int = ANSWER_BYTES) -> Reply:
        """With a token; a refused token is replaced once, since it may have been revoked early."""
        token, is_new = await self._passes.current()
        reply = await self._line.send(keyed(call, token), max_bytes=max_bytes)
        if reply.status == 401 and not is_new:
            self._passes.forget(token)
            token, _ = await self._passes.current()
            reply = await self._line.send(keyed(call, token), max_bytes=max_bytes)
        if reply.status == 401 and not self._passes.made_to_last:
            self._passes.forget(token)
            raise MeshBusy(f"{self.title} refused the token that it has just issued")
        return reply

    def _failure(self, reply: Reply, verb: TailscaleVerb) -> MeshError:
        return failure(reply, verb, self._dialect, self._passes.confidences, self._settings.tags)


class TailscaleMesh(ControlledMesh):
    """Behind the `Mesh` port. Raises MeshRefused if a Secret of its settings is missing."""

    def __init__(
        self,
        settings: MeshSettings,
        secrets: Secrets,
        dial: HttpFactory,
        clock: Clock,
        *,
        base_url: str = TAILSCALE_API,
    ) -> None:
        fixed_key = secret_of(secrets, settings.auth_key)
        client_id = secret_of(secrets, settings.client_id)
        client_secret = secret_of(secrets, settings.client_secret)
        control = None
        if client_id is not None and client_secret is not None:
            dialect = tailscale(settings)
            http = dial(base_url)
            control = V2Control(http, OauthTokens(http, dialect, client_id, client_secret, clock), settings, dialect)
        super().__init__(settings, control, fixed_key, clock, wanted=WANTED)


def keyed(call: Call, token: Secret) -> Call:
    return replace(call, headers=(("Authorization", f"Bearer {token.reveal()}"), *call.headers))


def _is_gone(reply: Reply) -> bool:
    """In its own error format: not an error page of a proxy."""
    return reply.status == 404 and words_of(reply) is not None


def judged(grant: TokenScopes, tags: tuple[str, ...], dialect: ServerFlavour) -> Findings:
    """A token comes with its scopes and the client's tags; which tags those own is unknown."""
    if grant.scopes is None:
        note = f"{dialect.title} does not show the scopes of {dialect.credentials}: only read access was tested"
        return Findings(notes=(note, *_about_tags(grant, tags, dialect)))
    problems = tuple(
        f"{dialect.credentials} cannot {use}: it needs the scope {scope} with write access, and has "
        f"{', '.join(sorted(grant.scopes))}"
        for scope, use in USES.items()
        if not grant.scopes & ENOUGH[scope]
    )
    return Findings(problems, _about_tags(grant, tags, dialect))


def _about_tags(grant: TokenScopes, tags: tuple[str, ...], dialect: ServerFlavour) -> tuple[str, ...]:
    if grant.tags is None or grant.tags == set(tags) or not tags or ALL in (grant.scopes or ()):
        return ()
    theirs, ours = ", ".join(sorted(grant.tags)), ", ".join(tags)
    doubt = f"{dialect.title} creates no key unless the client's tags own these ({dialect.tag_advice})"
    return (f"{dialect.credentials} has {theirs}, and machines get {ours}: {doubt}",)
