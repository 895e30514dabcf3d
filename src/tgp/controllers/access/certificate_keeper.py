"""Keeps the certificate of the HTTPS side: every replica serves what the Secret holds, the leader renews it.

Nothing else waits for it: an operator without a certificate buys and terminates as ever.
"""

import asyncio
import binascii
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tgp.adapters.http.issue import issue
from tgp.adapters.http.tls import BadCertificate
from tgp.api.resource import CONFIG_MAP, SECRET
from tgp.core.access.certificate import (
    AUTHORITY,
    AUTHORITY_CONFIG_MAP,
    AUTHORITY_KEY,
    KEY,
    MANAGED_BY,
    MANAGED_LABEL,
    OUR_SECRET,
    CertificateStep,
    Issue,
    ServingPair,
    StoredCertificate,
    certificate_step,
    service_names,
)
from tgp.core.model.facts import AuthorityNotPublished, CertificateIssued, CertificateServed, CertificateUnusable, Fact
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.secret import Secret
from tgp.ports.clock import Clock
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterBusy, ClusterError, Conflict, NotFound
from tgp.ports.entropy import Entropy
from tgp.ports.http import HttpError
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading

LOOK_EVERY = 10.0  # seconds: a certificate that was renewed is served within this time


@dataclass(frozen=True, slots=True)
class _Read:
    """A Secret, and what a conditional write needs."""

    stored: StoredCertificate
    uid: str
    resource_version: str


class CertificateKeeper:
    def __init__(
        self,
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
        entropy: Entropy,
        namespace: str,
        *,
        secret: str,  # empty: the operator's own
        serve: Callable[[ServingPair], None],  # raises BadCertificate
        may_write: Callable[[], bool],  # this replica leads
        read_only: bool = False,  # it never writes: then its own Secret is as one of the user's
        learn: Callable[[Secret], None],
        look_every: float = LOOK_EVERY,
    ) -> None:
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._entropy = entropy
        self._names = service_names(namespace)
        self._key = ObjectKey(namespace, secret or OUR_SECRET)
        self._config_map = ObjectKey(namespace, AUTHORITY_CONFIG_MAP)
        self._may_be_ours = not secret and not read_only
        self._serve = serve
        self._may_write = may_write
        self._learn = learn
        self._look_every = look_every
        self._served: ServingPair | None = None
        self._told: dict[type[Fact], str] = {}  # what was said last, so that it is said once

    @property
    def not_after(self) -> datetime | None:
        """Of the certificate that is served; None: none is."""
        return self._served.not_after if self._served is not None else None

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self.look()
            except (ClusterBusy, Conflict, AlreadyExists, NotLeading, HttpError):
                pass  # the next look sees what there is
            except ClusterError as error:  # a missing right, a refusal: the operator goes on without
                self._tell(CertificateUnusable(str(self._key), str(error)), str(error))
            await asyncio.sleep(self._look_every)

    async def look(self) -> None:
        """Read the Secret once; serve, renew and publish what it holds."""
        read = await self._read()
        stored = read.stored if read is not None else None
        step = certificate_step(stored, str(self._key), self._names, self._clock.now(), may_be_ours=self._may_be_ours)
        why = self._take_up(step) or ("" if step.issue is not Issue.NOTHING else step.why)
        if why:
            self._tell(CertificateUnusable(str(self._key), why), why)
        else:
            self._told.pop(CertificateUnusable, None)
        if not self._may_write():
            return
        if step.issue is not Issue.NOTHING:
            await self._issue(step, read)
        elif step.authority:
            await self._publish(step.authority.decode("ascii", "replace"))

    def _take_up(self, step: CertificateStep) -> str:
        """Why the certificate cannot be served; empty: it is, or there is none to serve."""
        if step.serve is None or step.serve == self._served:
            return ""
        try:
            self._serve(step.serve)
        except BadCertificate as error:
            return f"Secret {self._key}: {error}"
        self._served = step.serve
        self._journal.note(CertificateServed(str(self._key), step.serve.not_after))
        return ""

    async def _read(self) -> _Read | None:
        try:
            found = await self._cluster.read(SECRET, self._key)
        except NotFound:
            return None
        metadata = found["metadata"]
        coded = found.get("data")
        data = {key: _decoded(value) for key, value in coded.items()} if isinstance(coded, dict) else {}
        for name in (KEY, AUTHORITY_KEY):
            if data.get(name):
                self._learn(Secret(data[name].decode("utf-8", "replace").strip()))
        ours = (metadata.get("labels") or {}).get(MANAGED_LABEL) == MANAGED_BY
        return _Read(StoredCertificate(data, ours), str(metadata["uid"]), str(metadata["resourceVersion"]))

    async def _issue(self, step: CertificateStep, read: _Read | None) -> None:
        """One conditional write: what another replica or a user wrote meanwhile is never overwritten."""
        before: Mapping[str, bytes] = read.stored.data if read is not None else {}
        made = issue(step.issue, before, self._names, self._clock.now(), self._entropy)
        data = {name: b64encode(value).decode() for name, value in made.items()}
        if read is None:
            await self._cluster.create(SECRET, {**self._new(self._key), "type": "kubernetes.io/tls", "data": data})
        else:
            await self._cluster.patch(
                SECRET, self._key, {"data": data}, resource_version=read.resource_version, uid=read.uid
            )
        self._journal.note(CertificateIssued(str(self._key), step.issue.value, step.why))
        await self.look()  # serves and publishes what was written, read back

    async def _publish(self, authority: str) -> None:
        """What those verify with who scrape. Only our key of the ConfigMap is written."""
        change: dict[str, Any] = {"data": {AUTHORITY: authority}}
        try:
            found = await self._cluster.read(CONFIG_MAP, self._config_map)
        except NotFound:
            found = None
        try:
            if found is None:
                await self._cluster.create(CONFIG_MAP, {**self._new(self._config_map), **change})
            elif (found.get("data") or {}).get(AUTHORITY) != authority:
                await self._cluster.patch(CONFIG_MAP, self._config_map, change, uid=str(found["metadata"]["uid"]))
        except (ClusterBusy, Conflict, AlreadyExists):
            raise
        except ClusterError as error:  # it is full or immutable, or a policy refuses
            self._tell(AuthorityNotPublished(str(self._config_map), str(error)), str(error))
        else:
            self._told.pop(AuthorityNotPublished, None)

    def _new(self, key: ObjectKey) -> dict[str, Any]:
        return {"metadata": {"namespace": key.namespace, "name": key.name, "labels": {MANAGED_LABEL: MANAGED_BY}}}

    def _tell(self, fact: Fact, why: str) -> None:
        if self._told.get(type(fact)) != why:
            self._told[type(fact)] = why
            self._journal.note(fact)


def _decoded(coded: object) -> bytes:
    try:
        return b64decode(str(coded), validate=True)
    except binascii.Error:
        return b""
