"""From a target to an `Http` that reaches it."""

import ssl
from collections.abc import Callable
from datetime import timedelta
from functools import partial

from tgp.adapters.http.client import ConnectionPool, HttpClient
from tgp.adapters.http.tls import BadAuthority, BadCertificate, client_context
from tgp.adapters.kube.config import ClusterEntry, ClusterTarget
from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.config_files import ReadFile, read_file
from tgp.adapters.kube.credentials import Configured, CredentialSource, FromPlugin
from tgp.adapters.kube.credentials_http import AuthenticatedHttp
from tgp.ports.clock import Clock
from tgp.ports.compute import Compute
from tgp.ports.exec import Exec
from tgp.ports.http import NeverLeft, Pairs

# An unknown write is resolved by one read: connections are reused. The API server keeps idle ones for 90 s, HAProxy in
# front of it usually for 50; a new one costs both sides a TLS handshake.
KUBE_POOL = ConnectionPool(fresh_for_changes=False, keep_idle=timedelta(seconds=30))


def http_for(
    target: ClusterTarget,
    clock: Clock,
    compute: Compute,
    programs: Exec,
    *,
    headers: Pairs = (),
    read: ReadFile = read_file,
) -> AuthenticatedHttp:
    """All errors that show without a connection are raised here, by file and field."""
    cluster, user = target.cluster, target.user
    _check_address(cluster, clock)
    authority = _authority(cluster, read)
    _checked_context(cluster, authority)

    async def read_later(path: str) -> bytes:
        return await compute.run(partial(read, path))

    source: CredentialSource = Configured(user, clock, read_later)
    if user.plugin is not None and not (user.token or user.token_file or user.username):
        source = FromPlugin(user.plugin, cluster, clock, programs, authority=authority or b"")
    return AuthenticatedHttp(source, _connector(target, clock, authority, headers), user.impersonation)


def _connector(
    target: ClusterTarget, clock: Clock, authority: bytes | None, headers: Pairs
) -> Callable[[bytes, bytes], HttpClient]:
    cluster = target.cluster

    def connect(certificate: bytes, key: bytes) -> HttpClient:
        try:
            tls = _context(cluster, authority, certificate, key)
        except BadCertificate as error:
            raise NeverLeft(f"{target.user.where}: {error}") from None
        return HttpClient(
            cluster.server,
            clock,
            tls=tls if _encrypted(cluster) else None,
            server_name=cluster.server_name,
            proxy=cluster.proxy,
            headers=headers,
            pool=KUBE_POOL,
        )

    return connect


def _check_address(cluster: ClusterEntry, clock: Clock) -> None:
    try:
        HttpClient(cluster.server, clock)
    except ValueError as error:
        raise ConfigInvalid(f"{cluster.where}.server: {error}") from None


def _authority(cluster: ClusterEntry, read: ReadFile) -> bytes | None:
    material = cluster.authority
    if material is None:
        return None
    if material.data:
        return material.data
    try:
        return read(material.path)
    except OSError as error:
        raise ConfigInvalid(f"{material.where}: {material.path}: {error.strerror or 'cannot be read'}") from None


def _encrypted(cluster: ClusterEntry) -> bool:
    return cluster.server.startswith("https:")


def _context(
    cluster: ClusterEntry, authority: bytes | None, certificate: bytes = b"", key: bytes = b""
) -> ssl.SSLContext | None:
    """None: plain HTTP without anything to check. The system's CAs would take a megabyte."""
    if not (_encrypted(cluster) or authority is not None or certificate or key):
        return None
    return client_context(authority, insecure=cluster.insecure, certificate=certificate, key=key)


def _checked_context(cluster: ClusterEntry, authority: bytes | None) -> None:
    try:
        _context(cluster, authority)
    except BadAuthority as error:
        where = cluster.authority.where if cluster.authority else cluster.where
        raise ConfigInvalid(f"{where}: {error}") from None
