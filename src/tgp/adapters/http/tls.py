"""TLS contexts from certificates in memory: keys that came in a kubeconfig or from a plugin never touch a disk."""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator


class BadAuthority(ValueError):
    """The certificate authority's bytes hold no usable certificate."""


class BadCertificate(ValueError):
    """The certificate and key cannot be used together."""


def client_context(
    authority: bytes | None = None,  # PEM; None: the system's
    *,
    insecure: bool = False,
    certificate: bytes = b"",
    key: bytes = b"",
) -> ssl.SSLContext:
    if authority is not None and not authority.strip():
        raise BadAuthority("is empty")  # Python would use the system's CAs instead
    try:
        context = ssl.create_default_context(cadata=authority.decode("ascii") if authority is not None else None)
    except (ssl.SSLError, ValueError):
        raise BadAuthority("contains no valid certificate in PEM form") from None
    # Python 3.13 turned on strict X.509 checks that CAs made by kubeadm and others do not pass.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate or key:
        _load(context, certificate, key)
    return context


class ServingContext:
    """TLS for a server whose certificate changes while it runs: new connections get the newest."""

    def __init__(self) -> None:
        self.context = _server_context()  # until the first certificate every handshake fails

    def load(self, certificate: bytes, key: bytes) -> None:
        """Raises BadCertificate, and then the former certificate stays."""
        _load(_server_context(), certificate, key)  # a pair that fails half-way must not touch the one in use
        _load(self.context, certificate, key)


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    try:
        with _as_file(certificate + b"\n" + key) as path:
            # An encrypted key must not make OpenSSL ask on the terminal.
            context.load_cert_chain(path, password="")
    except (ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", "") or "the key may be encrypted"
        raise BadCertificate(f"certificate and key cannot be used: {reason}") from None


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path that OpenSSL can open: in memory on Linux, elsewhere a private file that is deleted at once."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("tls", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        yield file.name
