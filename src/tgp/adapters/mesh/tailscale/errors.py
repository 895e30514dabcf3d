"""What an answer that is no success means. Only what the server says in its own words is believed: a page of a proxy
refuses nothing.
"""

from enum import StrEnum

from tgp.adapters.clouds.discreet import quoted
from tgp.adapters.mesh.answers import words_of
from tgp.adapters.mesh.tailscale.dialect import AUTH_KEYS, DEVICES, Dialect
from tgp.core.model.secret import Secret
from tgp.ports.http import Reply
from tgp.ports.mesh import MeshBusy, MeshError, MeshRefused

FOR_GOOD = frozenset({400, 404, 405, 409, 410, 422})


class Verb(StrEnum):
    """As people read it."""

    TOKEN = "an access token"  # noqa: S105 - a word for people
    MINT = "an auth key"
    LIST = "the list of devices"
    KEYS = "the list of keys"
    DELETE = "the removal of a device"
    REVOKE = "the revocation of a key"


SCOPES = {
    Verb.MINT: AUTH_KEYS,
    Verb.KEYS: AUTH_KEYS,
    Verb.REVOKE: AUTH_KEYS,
    Verb.LIST: DEVICES,
    Verb.DELETE: DEVICES,
}


def failure(
    reply: Reply, verb: Verb, dialect: Dialect, confidences: tuple[Secret, ...], tags: tuple[str, ...] = ()
) -> MeshError:
    title, status = dialect.title, reply.status
    if status == 429:
        return MeshBusy(f"{title} asks us to slow down ({verb})", reply.retry_after)
    said = words_of(reply)
    if said is None or status >= 500:
        return MeshBusy(f"{title} answered {status} to {verb}{'' if said else ', and not in its own words'}")
    words = quoted(said, *confidences)
    if verb is Verb.MINT and status in (400, 403) and "tag" in said.lower():
        return MeshRefused(f"{title} makes no key with {', '.join(tags)} ({words}): {dialect.tag_advice}")
    if status == 401 or (verb is Verb.TOKEN and status in (400, 403)):
        return MeshRefused(f"{title} does not accept {dialect.credentials} ({words}): {dialect.renew_advice}")
    if status == 403:
        scope = SCOPES[verb]
        return MeshRefused(
            f"{dialect.credentials} may not have {verb} from {title} ({words}): it needs the scope {scope}, with write"
        )
    if status in FOR_GOOD:
        return MeshRefused(f"{title} refused {verb}: {words}")
    return MeshBusy(f"{title} answered {status} to {verb}: {words}")
