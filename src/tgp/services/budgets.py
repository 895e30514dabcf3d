"""Budgets, seen with a user's kubeconfig: by the operator's own functions, from the account in each status."""

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import get_close_matches

import msgspec

from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import namespaces, pods, typed
from tgp.api.budget import GPUWorkloadBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET
from tgp.api.values import rfc3339
from tgp.core.budgets import victims
from tgp.core.budgets.account import OpenPod
from tgp.core.budgets.assess import assess
from tgp.core.budgets.belonging import selector_of
from tgp.core.budgets.days import DAYS_LABEL, BudgetDay, day_of, read_days
from tgp.core.budgets.packing import NewerAccount, NotAnAccount, unpack
from tgp.core.budgets.quota import counted_by, limits_of, spec_problem
from tgp.core.budgets.reset import RESET, ResetAsked
from tgp.core.budgets.simulate import BudgetFit, fit
from tgp.core.budgets.spans import seconds, short_uid
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.ports.cluster import Forbidden, KindsMissing, NotFound
from tgp.ports.http import HttpError, json_call
from tgp.services.budget_answers import (
    BudgetBoard,
    BudgetEnquiry,
    BudgetLine,
    BudgetReport,
    PodUse,
    SimulatedFit,
    Simulation,
)
from tgp.services.cluster_reads import NO_KINDS, ClusterReads, config_maps

RESET_WITHIN = 20  # seconds: the operator writes a reset at once
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class BudgetService:
    def __init__(self, reads: ClusterReads) -> None:
        self._reads = reads
        self._http = reads.http
        self.namespace = self._reads.namespace

    # -- reading -------------------------------------------------------------------------------------------------------

    async def board(self, namespace: str = "") -> BudgetBoard:
        """Every budget that the user may read; only those in `namespace` if it is given. Raises ClusterError."""
        found = await self._listed(namespace)
        now = self._reads.now()
        return BudgetBoard(now, tuple(line for record in found if (line := self._line(record, now)) is not None))

    async def _listed(self, namespace: str) -> list[KubeObject[GPUWorkloadBudget]]:
        try:
            return await self._reads.listed(ListTarget(typed(GPU_WORKLOAD_BUDGET, GPUWorkloadBudget), namespace))
        except NotFound as error:
            raise KindsMissing(NO_KINDS) from error

    def _line(self, record: KubeObject[GPUWorkloadBudget], now: datetime) -> BudgetLine | None:
        budget, moment = record.value, seconds(now)
        if budget is None:
            return None
        limits, account = limits_of(budget.spec, moment), None
        if budget.status.account and not self._problem(record.key, budget):
            try:
                account = counted_by(unpack(budget.status.account, moment), budget.spec.quota)
            except (NotAnAccount, NewerAccount):
                account = None
        exceeded = budget.status.exceeded_at is not None
        seen = None if account is None else assess(limits, account, max(moment, account.at), exceeded=exceeded)
        return BudgetLine(record.key, budget, limits, account, seen)

    def _problem(self, key: ObjectKey, budget: GPUWorkloadBudget) -> bool:
        return spec_problem(budget.spec, key.namespace, self._reads.operator_namespace) is not None

    async def _found(self, key: ObjectKey) -> KubeObject[GPUWorkloadBudget]:
        """Raises NotFound, which names the nearest ones."""
        key = key if key.namespace else ObjectKey(self.namespace, key.name)
        listed = await self._listed("")
        for record in listed:
            if record.key == key:
                return record
        elsewhere = [str(each.key) for each in listed if each.key.name == key.name]
        near = elsewhere or get_close_matches(key.name, [each.key.name for each in listed], n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ""
        raise NotFound(f"there is no GPUWorkloadBudget {key}{hint}")

    async def enquire(self, key: ObjectKey) -> BudgetEnquiry:
        record = await self._found(key)
        several = record.value is not None and record.value.spec.namespace_selector is not None
        shown = await self._reads.listed(ListTarget(pods(), "" if several else record.key.namespace))
        now = self._reads.now()
        line = self._line(record, now)
        if line is None:
            raise NotFound(f"GPUWorkloadBudget {record.key} was written by a newer version and cannot be read")
        events = await self._reads.events(record.key.namespace, uid_text(record.uid))
        open_ = line.account.open if line.account is not None else {}
        running = {uid: pod for pod in shown if (uid := short_uid(pod)) in open_}
        rows = [_use(line, pod, open_[uid], seconds(now), several=several) for uid, pod in running.items()]
        return BudgetEnquiry(
            now,
            line,
            tuple(sorted(rows, key=lambda row: (-row.used, row.name))),
            len(open_) - len(running),
            line.budget.status.largest,
            next_act(line, running, seconds(now)),
            events or (),
        )

    async def simulate(self, namespace: str, labels: Mapping[str, str], milli: int, lasts: int) -> Simulation:
        """Of every budget to which such a pod would belong; without labels of every one of the namespace."""
        namespace = namespace or self.namespace
        board = await self.board()
        there = await self._labels_of(namespace)
        chosen = [line for line in board.lines if _concerns(line, namespace, there, labels)]
        fits = tuple(SimulatedFit(line, _fit(line, milli, lasts)) for line in chosen)
        return Simulation(board.now, namespace, dict(labels), fits)

    async def _labels_of(self, namespace: str) -> Mapping[str, str] | None:
        """None: the user may not see namespaces."""
        try:
            found = await self._reads.listed(ListTarget(namespaces()))
        except Forbidden:
            return None
        return next((each.labels for each in found if each.key.name == namespace), {})

    async def report(self, month: str) -> BudgetReport:
        """The days that are written, and of today what was used so far. Raises ClusterError."""
        board = await self.board()
        today = board.now.astimezone(UTC).date()
        month = month or str(today)[:7]
        pages = await config_maps(self._http, self._reads.operator_namespace, f"{DAYS_LABEL}={month}")
        rows = list(read_days(pages))
        if str(today).startswith(month):
            made = (
                day_of(line.key, line.account, today, board.now) for line in board.lines if line.account is not None
            )
            rows += [row for row in made if row is not None]
        return BudgetReport(month, tuple(sorted(rows, key=_by_budget)))

    # -- changing ------------------------------------------------------------------------------------------------------

    async def top_up(self, key: ObjectKey, gpu_hours: str, until: datetime, reason: str) -> BudgetLine:
        """Grant hours on top. Those that have lapsed are removed. Raises ClusterError."""
        record = await self._found(key)
        assert record.value is not None, "it was found by its value"
        now = self._reads.now()
        kept = [
            {"gpuHours": each.gpu_hours, "until": rfc3339(each.until), "reason": each.reason}
            for each in record.value.spec.quota.extra
            if each.until > now
        ]
        extra = [*kept, {"gpuHours": gpu_hours, "until": rfc3339(until), "reason": reason}]
        await self._reads.cluster.patch(
            GPU_WORKLOAD_BUDGET,
            record.key,
            {"spec": {"quota": {"extra": extra}}},
            resource_version=str(record.resource_version),
        )
        return await self._line_of(record.key)

    async def reset(self, key: ObjectKey) -> ResetAsked:
        """Ask the operator for a fresh start. Raises ClusterError."""
        record = await self._found(key)
        asked = ResetAsked(self._reads.now(), await self._who())
        change = {"metadata": {"annotations": {RESET: str(asked)}}}
        await self._reads.cluster.patch(GPU_WORKLOAD_BUDGET, record.key, change, uid=record.uid_text)
        return asked

    async def is_reset(self, key: ObjectKey, asked: ResetAsked) -> bool:
        """Wait until the operator has done it; False: it has not within a while. Raises ClusterError."""
        for _ in range(RESET_WITHIN):
            record = await self._found(key)
            done = record.value.status.reset_at if record.value is not None else None
            if done is not None and done >= asked.at.replace(microsecond=0):
                return True
            await asyncio.sleep(1)
        return False

    async def _line_of(self, key: ObjectKey) -> BudgetLine:
        line = self._line(await self._found(key), self._reads.now())
        assert line is not None, "it was just written"
        return line

    async def _who(self) -> str:
        """Whom the API server takes this user for; empty: it does not say."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
        try:
            reply = await self._http.send(json_call("POST", REVIEW, body))
        except HttpError:
            return ""
        if not reply.ok:
            return ""
        return str(((reply.json().get("status") or {}).get("userInfo") or {}).get("username") or "")


def next_act(line: BudgetLine, running: Mapping[bytes, Pod], now: int) -> victims.NextAct | None:
    """When the quota is reached, or was, and which pods go then, in order."""
    seen, account, rules = line.seen, line.account, line.budget.spec.enforcement
    if seen is None or account is None or seen.exhausted_at is None:
        return None
    since = line.budget.status.exceeded_at
    reached = seconds(since) if since is not None else seen.exhausted_at
    found = victims.next_act(running, account, line.limits, rules, now, reached_at=reached)
    last = line.budget.status.last_enforcement_at
    acted = since is not None and last is not None and last >= since
    return msgspec.structs.replace(found, begun=acted)


def _fit(line: BudgetLine, milli: int, lasts: int) -> BudgetFit | None:
    account, seen = line.account, line.seen
    if account is None or seen is None:
        return None
    opens_at = seen.next_change_at if seen.exceeded else None
    found = fit(account, line.limits, seen.now, milli=milli, lasts=lasts, opens_at=opens_at)
    return msgspec.structs.replace(found, at=None) if seen.exceeded and opens_at is None else found


def _use(line: BudgetLine, pod: Pod, held: OpenPod, now: int, *, several: bool) -> PodUse:
    assert line.account is not None, "its pods are those of an account"
    used = held.used(line.account.begins(now), now)
    name = str(pod.key) if several else pod.key.name
    return PodUse(name, held.milli, used, held.sure_until, held.start is not None)


def _concerns(
    line: BudgetLine, namespace: str, namespace_labels: Mapping[str, str] | None, labels: Mapping[str, str]
) -> bool:
    spec = line.budget.spec
    if spec.namespace_selector is None:
        there = line.key.namespace == namespace
    else:
        there = namespace_labels is None or selector_of(spec.namespace_selector).selects(namespace_labels)
    return there and (not labels or selector_of(spec.selector).selects(labels))


def _by_budget(row: BudgetDay) -> tuple[str, str, str]:
    return row.namespace, row.name, row.day
