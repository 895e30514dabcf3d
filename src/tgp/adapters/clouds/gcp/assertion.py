"""The signed statement a service account gets its access tokens for (RFC 7523, RS256)."""

from base64 import urlsafe_b64encode
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tgp.adapters.clouds.gcp.account import ServiceAccount

SCOPE = "https://www.googleapis.com/auth/cloud-platform"  # the account's roles limit this
LIFETIME = timedelta(hours=1)  # the longest that is accepted


def assertion(account: ServiceAccount, now: datetime) -> str:
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.hashes import SHA256

    issued = int(now.timestamp())
    claims = {
        "iss": account.email,
        "scope": SCOPE,
        "aud": account.token_uri,
        "iat": issued,
        "exp": issued + int(LIFETIME.total_seconds()),
    }
    header = {"alg": "RS256", "typ": "JWT", "kid": account.key_id}
    stated = f"{_part(header)}.{_part(claims)}"
    signature = account.private_key.sign(stated.encode(), PKCS1v15(), SHA256())
    return f"{stated}.{_plain(signature)}"


def _part(value: dict[str, Any]) -> str:
    return _plain(msgspec.json.encode(value))


def _plain(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
