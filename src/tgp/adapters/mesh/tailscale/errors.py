"""Maps an error answer to an error class. Only the server's own error format counts: an error page of a proxy
refuses nothing.
"""

from enum import StrEnum

from tgp.adapters.clouds.redact import quoted
from tgp.adapters.mesh.parse import words_of
from tgp.adapters.mesh.tailscale.server_flavour import AUTH_KEYS, DEVICES, ServerFlavour
from tgp.core.model.secret import Secret
from tgp.ports.http import Reply
from tgp.ports.mesh import MeshBusy, MeshError, MeshRefused

FOR_GOOD = frozenset({400, 404, 405, 409, 410, 422})


class TailscaleVerb(StrEnum):
    """As shown in messages."""

    TOKEN = "an access token"  # noqa: S105 - a text for messages
    MINT = "an auth key"
    LIST = "the list of devices"
    KEYS = "the list of keys"
    DELETE = "the removal of a device"
    REVOKE = "the revocation of a key"


SCOPES = {
    TailscaleVerb.MINT: AUTH_KEYS,
    TailscaleVerb.KEYS: AUTH_KEYS,
    TailscaleVerb.REVOKE: AUTH_KEYS,
    TailscaleVerb.LIST: DEVICES,
    TailscaleVerb.DELETE: DEVICES,
}


def failure(
    reply: Reply,
    verb: TailscaleVerb,
    dialect: ServerFlavour,
    confidences: tuple[Secret, ...],
    tags: tuple[str, ...] = (),
) -> MeshError:
    title, status = dialect.title, reply.status
    if status == 429:
        return MeshBusy(f"{title} limits the rate of calls ({verb})", reply.retry_after)
    said = words_of(reply)
    if said is None or status >= 500:
        return MeshBusy(f"{title} answered {status} to {verb}{'' if said else ', and not in its own error format'}")
    words = quoted(said, *confidences)
    if verb is TailscaleVerb.MINT and status in (400, 403) and "tag" in said.lower():
        return MeshRefused(f"{title} refused a key with {', '.join(tags)} ({words}): {dialect.tag_advice}")
    if status == 401 or (verb is TailscaleVerb.TOKEN and status in (400, 403)):
        return MeshRefused(f"{title} refused {dialect.credentials} ({words}): {dialect.renew_advice}")
    if status == 403:
        scope = SCOPES[verb]
        return MeshRefused(
            f"{dialect.credentials} may not get {verb} from {title} ({words}): it needs the scope {scope} with "
            "write access"
        )
    if status in FOR_GOOD:
        return MeshRefused(f"{title} refused {verb}: {words}")
    return MeshBusy(f"{title} answered {status} to {verb}: {words}")
