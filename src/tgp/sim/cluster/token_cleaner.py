"""Bootstrap tokens go when they have expired, as the controller manager of a Talos cluster sees to."""

from base64 import b64decode
from collections.abc import Iterable
from datetime import datetime

from tgp.api.resource import SECRET
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.json_value import Json, mapping_at
from tgp.sim.cluster.component_api import key_of
from tgp.sim.cluster.controller import ClusterController, StoreCommit

TOKEN = "bootstrap.kubernetes.io/token"  # noqa: S105 - a type's name


class TokenCleaner(ClusterController):
    name = "tokencleaner"
    watched = (SECRET,)

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        token = commit.after is not None and commit.obj.get("type") == TOKEN
        return (key_of(commit.obj),) if token and commit.obj["metadata"]["namespace"] == "kube-system" else ()

    def reconcile(self, key: ObjectKey) -> float | None:
        secret = self.api.get(SECRET, *key)
        expires_at = _expiry(secret) if secret is not None else None
        if secret is None or expires_at is None:
            return None
        remaining = (expires_at - self.api.now()).total_seconds()
        if remaining > 0:
            return remaining
        self.api.delete(SECRET, secret)
        return None


def _expiry(secret: Json) -> datetime | None:
    """None: it does not expire, or its expiry cannot be read."""
    try:
        moment = datetime.fromisoformat(b64decode(mapping_at(secret, "data").get("expiration", "")).decode())
    except ValueError:
        return None
    return moment if moment.tzinfo is not None else None
