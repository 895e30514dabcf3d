"""Bootstrap tokens go when they have expired, as the controller manager of a Talos cluster sees to."""

from base64 import b64decode
from collections.abc import Iterable
from datetime import datetime

from tgp.api.resource import SECRET
from tgp.core.model.key import Key
from tgp.sim.apiserver.json_value import Json, mapping_at
from tgp.sim.cluster.controller import Commit, Controller
from tgp.sim.cluster.desk import key_of

TOKEN = "bootstrap.kubernetes.io/token"  # noqa: S105 - a type's name


class TokenCleaner(Controller):
    name = "tokencleaner"
    watched = (SECRET,)

    def concerns(self, commit: Commit) -> Iterable[Key]:
        token = commit.after is not None and commit.obj.get("type") == TOKEN
        return (key_of(commit.obj),) if token and commit.obj["metadata"]["namespace"] == "kube-system" else ()

    def reconcile(self, key: Key) -> float | None:
        secret = self.desk.get(SECRET, *key)
        expires_at = _expiry(secret) if secret is not None else None
        if secret is None or expires_at is None:
            return None
        remaining = (expires_at - self.desk.now()).total_seconds()
        if remaining > 0:
            return remaining
        self.desk.delete(SECRET, secret)
        return None


def _expiry(secret: Json) -> datetime | None:
    """None: it stays for ever, or says so in a way that nobody understands."""
    try:
        moment = datetime.fromisoformat(b64decode(mapping_at(secret, "data").get("expiration", "")).decode())
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
