"""Names by which machines are found again. Once released these forms never change."""

from hashlib import blake2b

from tgp.core.model.object_key import ObjectKey

CLUSTER_DIGITS = 10
KUBE_SYSTEM = ObjectKey("", "kube-system")  # the namespace whose uid tells clusters apart


def cluster_id(kube_system_uid: str) -> str:
    """Which cluster a machine belongs to: ten hex digits from the kube-system namespace's uid, never configurable."""
    assert kube_system_uid, "a cluster without a kube-system namespace has no id"
    return blake2b(kube_system_uid.encode(), digest_size=CLUSTER_DIGITS // 2).hexdigest()
