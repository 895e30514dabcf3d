"""What was made so that one machine could join: on paper before it is made, and until it is removed again.

One line per launch token in a ConfigMap of the operator's namespace. It names Secrets, and holds none.
"""

from datetime import datetime, timedelta

import msgspec

from tgp.core.model.key import Key
from tgp.core.model.mesh import Backend, MeshSettings, Ref, Trace, TunnelSettings

BOOK = "tgp-boot"  # the ConfigMap
LEEWAY = timedelta(minutes=1)  # by which the mesh's clock may be behind the cluster's


class MeshNote(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The mesh it was let into, as far as finding and removing it takes."""

    backend: str
    hostname: str
    login_server: str = ""
    tags: tuple[str, ...] = ()
    client_id: str = ""  # secret/key
    client_secret: str = ""
    api_key: str = ""
    address_pool: str = ""
    server_key: str = ""  # a tunnel's, which is public
    server_key_ref: str = ""  # secret/key
    key_id: str = ""
    device_id: str = ""
    address: str = ""


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    token: str
    request: str  # namespace/name
    node: str
    since: datetime
    expires: datetime  # the bootstrap token's end
    mesh: MeshNote | None = None
    joined: bool = False  # its Node came: what only serves to join is removed

    @property
    def key(self) -> Key:
        return Key(*self.request.split("/", 1))


def line_of(entry: Entry) -> str:
    return msgspec.json.encode(entry).decode()


def read_line(line: object) -> Entry | None:
    """None: nobody can read it; a newer version's, perhaps. It is left alone."""
    try:
        return msgspec.json.decode(line, type=Entry) if isinstance(line, str) else None
    except msgspec.DecodeError:
        return None


def note_of(settings: MeshSettings, hostname: str) -> MeshNote:
    tunnel = settings.tunnel or TunnelSettings()
    return MeshNote(
        settings.backend.value,
        hostname,
        login_server=settings.login_server,
        tags=settings.tags,
        client_id=str(settings.client_id or ""),
        client_secret=str(settings.client_secret or ""),
        api_key=str(settings.api_key or ""),
        address_pool=tunnel.address_pool,
        server_key=tunnel.server_key if isinstance(tunnel.server_key, str) else "",
        server_key_ref=str(tunnel.server_key) if isinstance(tunnel.server_key, Ref) else "",
    )


def settings_of(note: MeshNote) -> MeshSettings:
    """Enough of the mesh to find and remove a machine in it, whatever became of the class."""
    backend = Backend(note.backend)
    return MeshSettings(
        backend,
        login_server=note.login_server,
        tags=note.tags,
        client_id=_ref(note.client_id),
        client_secret=_ref(note.client_secret),
        api_key=_ref(note.api_key),
        tunnel=_tunnel(note) if backend is Backend.WIREGUARD else None,
    )


def _tunnel(note: MeshNote) -> TunnelSettings:
    return TunnelSettings(server_key=note.server_key or _ref(note.server_key_ref), address_pool=note.address_pool)


def trace_of(entry: Entry, addresses: tuple[str, ...] = ()) -> Trace | None:
    """None: it was let into no mesh."""
    note = entry.mesh
    if note is None:
        return None
    known = (note.address.partition("/")[0],) if note.address else ()
    return Trace(note.hostname, entry.since - LEEWAY, note.key_id, note.device_id, (*addresses, *known))


def _ref(text: str) -> Ref | None:
    secret, _, key = text.partition("/")
    return Ref(secret, key) if key else None
