"""Looks after GPUNodeClasses: are the Secrets they refer to there, do they contradict themselves?"""

from collections.abc import Iterable
from datetime import datetime

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.resource import SECRET
from tgp.controllers.verdicts import Scribe
from tgp.core.model.key import Key
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata
from tgp.core.rules.nodeclass import ClassSight, backend_of, judge_class
from tgp.core.rules.secrets import names, wanted_by
from tgp.ports.cluster import Cluster, NotFound, View


class NodeClassReconciler:
    def __init__(
        self,
        classes: View[Typed[GPUNodeClass]],
        secrets: View[Metadata],  # of the operator's namespace: that they are there, not what is in them
        cluster: Cluster,
        scribe: Scribe,
        *,
        namespace: str,
        default_backend: str,
        time_zones: frozenset[str],
    ) -> None:
        self._classes = classes
        self._secrets = secrets
        self._cluster = cluster
        self._scribe = scribe
        self._namespace = namespace
        self._default_backend = default_backend
        self._time_zones = time_zones

    async def reconcile(self, key: Key) -> datetime | None:
        record = self._classes.get(key)
        if record is None or record.deleting or record.object is None:
            return None  # unreadable: written by a newer version, perhaps. Left alone; its view has said so already.
        wanted = wanted_by(record.object, backend_of(record.object, self._default_backend))
        present = {name: keys for name in names(wanted) if (keys := await self._keys_of(name)) is not None}
        sight = ClassSight(record.object, present, self._namespace, self._default_backend, self._time_zones)
        await self._scribe.write(record, judge_class(sight))
        return None

    async def _keys_of(self, secret: str) -> frozenset[str] | None:
        """Names only: values are dropped here and never held. None: there is no such Secret."""
        key = Key(self._namespace, secret)
        if self._secrets.get(key) is None:
            return None
        try:
            found = (await self._cluster.read(SECRET, key)).get("data")
        except NotFound:
            return None
        return frozenset(name for name, value in found.items() if value) if isinstance(found, dict) else frozenset()

    def referring_to(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """Classes that a change of this Secret concerns."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        for record in self._classes.values():
            if record.object is None:
                continue
            wanted = wanted_by(record.object, backend_of(record.object, self._default_backend))
            if changed.key.name in names(wanted):
                yield record.key
