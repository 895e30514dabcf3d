"""What was created so that one machine could join: recorded before it is created, and until it is removed.

One line per launch token in a ConfigMap of the operator's namespace. It names Secrets, and holds none.
"""

from datetime import datetime, timedelta

import msgspec

from tgp.core.model.mesh import Backend, DeviceRef, MeshSettings, Ref, TunnelSettings
from tgp.core.model.object_key import ObjectKey

JOIN_RECORDS = "tgp-boot"  # the ConfigMap
LEEWAY = timedelta(minutes=1)  # by which the mesh's clock may be behind the cluster's


class MeshRecord(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The mesh the machine was enrolled in, as far as finding and removing it needs."""

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


class JoinRecord(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    token: str
    request: str  # namespace/name
    node: str
    since: datetime
    expires: datetime  # the bootstrap token's end
    mesh: MeshRecord | None = None
    joined: bool = False  # its Node registered: what only serves to join is removed

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(*self.request.split("/", 1))


def line_of(entry: JoinRecord) -> str:
    return msgspec.json.encode(entry).decode()


def read_line(line: object) -> JoinRecord | None:
    """None: unreadable; written by a newer version, perhaps. The line is kept."""
    try:
        return msgspec.json.decode(line, type=JoinRecord) if isinstance(line, str) else None
    except msgspec.DecodeError:
        return None


def note_of(settings: MeshSettings, hostname: str) -> MeshRecord:
    tunnel = settings.tunnel or TunnelSettings()
    return MeshRecord(
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


def settings_of(note: MeshRecord) -> MeshSettings:
    """Enough of the mesh to find and remove a machine in it, even if the class is gone."""
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


def _tunnel(note: MeshRecord) -> TunnelSettings:
    return TunnelSettings(server_key=note.server_key or _ref(note.server_key_ref), address_pool=note.address_pool)


def trace_of(entry: JoinRecord, addresses: tuple[str, ...] = ()) -> DeviceRef | None:
    """None: it was enrolled in no mesh."""
    note = entry.mesh
    if note is None:
        return None
    known = (note.address.partition("/")[0],) if note.address else ()
    return DeviceRef(note.hostname, entry.since - LEEWAY, note.key_id, note.device_id, (*addresses, *known))


def _ref(text: str) -> Ref | None:
    secret, _, key = text.partition("/")
    return Ref(secret, key) if key else None
