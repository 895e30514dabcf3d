"""A service account's key: the JSON file from Google's console, parsed or refused.

Errors name the field. Its content is never quoted.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import msgspec

from tgp.adapters.clouds.gcp.facts import FACTS
from tgp.core.model.cloud_errors import KeyRefused
from tgp.core.model.secret import Secret
from tgp.ports.http import NO_JSON

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

KEY_LONGEST = 64 << 10  # characters; a real one has about 2,400
FIELD_LONGEST = 16 << 10
KEYS_KEPT = 8  # parsed; a cluster has one or two
FEWEST_BITS = 2048  # of the RSA key; Google's have 2048


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    project: str
    email: str
    key_id: str
    token_uri: str  # https, or http to this very machine or to the endpoint that the class names
    _private_key: str = field(repr=False)

    @property
    def private_key(self) -> "RSAPrivateKey":
        return _parsed(self._private_key)


@lru_cache(maxsize=KEYS_KEPT)  # checking an RSA key takes 0.1 s, and the loop waits for it
def _parsed(pem: str) -> "RSAPrivateKey":
    # Imported late: only users of Google Cloud load the library.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise _refused("private_key", "is not an RSA key in PEM") from None  # the cause may quote it
    if not isinstance(key, RSAPrivateKey) or key.key_size < FEWEST_BITS:
        raise _refused("private_key", f"is not an RSA key of {FEWEST_BITS} bits or more")
    return key


def read_key(key: Secret | None, *, project: str = "", endpoint: str = "") -> ServiceAccount:
    """The account a key is for; `project` of the class wins over the key's own. Raises KeyRefused."""
    if key is None or not key:
        raise KeyRefused(f"{FACTS.title} needs a service account's key (JSON) in {FACTS.key_variable}")
    fields = _fields(key.reveal())
    if _text(fields, "type") != "service_account":
        raise _refused("type", "is not service_account")
    account = ServiceAccount(
        project=project or _text(fields, "project_id"),
        email=_text(fields, "client_email"),
        key_id=_text(fields, "private_key_id"),
        token_uri=_token_uri(_text(fields, "token_uri"), endpoint),
        _private_key=_text(fields, "private_key"),
    )
    _check_project(account.project)
    return account


def _fields(told: str) -> dict[str, Any]:
    if len(told) > KEY_LONGEST:
        raise KeyRefused(f"the key for {FACTS.title} is too long for a service account's key")
    try:
        value = msgspec.json.decode(told)
    except (*NO_JSON, UnicodeError):
        raise KeyRefused(f"the key for {FACTS.title} is not JSON: use the whole service account key file") from None
    if not isinstance(value, dict):
        raise KeyRefused(f"the key for {FACTS.title} is not a JSON object: use the whole service account key file")
    return value


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        raise _refused(name, "is missing")
    if not isinstance(value, str) or not value or len(value) > FIELD_LONGEST:
        raise _refused(name, "is not a string")
    return value


def _token_uri(told: str, endpoint: str) -> str:
    parts = _split(told)
    if parts is None or parts.username is not None or parts.query or parts.fragment:
        raise _refused("token_uri", "is not a URL")
    if parts.scheme == "https":
        return told
    if parts.scheme == "http" and (_is_loopback(parts.hostname or "") or _same_origin(parts, endpoint)):
        return told
    raise _refused("token_uri", "is not https")


def _split(url: str) -> SplitResult | None:
    """None: not a URL with a host."""
    if not url.isascii() or not url.isprintable() or " " in url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    return parts if parts.hostname and port != 0 else None


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _same_origin(parts: SplitResult, endpoint: str) -> bool:
    """An http endpoint is the administrator's choice; the token request may use it too."""
    other = _split(endpoint) if endpoint else None
    return other is not None and (other.scheme, other.netloc) == (parts.scheme, parts.netloc)


def _check_project(project: str) -> None:
    """As it goes into paths. Old projects have a domain before them: example.com:my-project."""
    plain = project.replace(".", "").replace(":", "").replace("-", "")
    if not plain.isascii() or not plain.isalnum() or len(project) > 96 or project.startswith((".", ":")):
        raise _refused("project_id", "is not the id of a project")


def _refused(name: str, why: str) -> KeyRefused:
    return KeyRefused(f"the key for {FACTS.title} cannot be used: its field {name} {why}")
