"""Jobs: pods until enough have succeeded or too many have failed. Each is counted once, also one that was deleted."""

from collections.abc import Iterable
from dataclasses import dataclass

from tgp.api.resource import JOB, POD
from tgp.core.model.backoff import doubled
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.json_value import Json, copied
from tgp.sim.cluster.component_api import is_ending, is_true, key_of, moment, set_condition
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.pods_of import controlled, create_pod, is_active, is_ready, owner_keys

TRACKED = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
BACKOFF_FIRST, BACKOFF_LONGEST = 10.0, 600.0  # seconds, doubled with every failure, as the job controller does


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """How a job ends."""

    kind: str  # Complete or Failed
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class JobTally:
    """What has ended so far, each pod once."""

    succeeded: int
    failed: int
    done: set[str]  # indexes that succeeded


class Jobs(ClusterController):
    name = "job-controller"
    watched = (JOB, POD)

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        if commit.served.kind == "Job":
            return (key_of(commit.obj),)
        return owner_keys(commit, "Job")

    def reconcile(self, key: ObjectKey) -> float | None:
        job = self.api.get(JOB, *key)
        if job is None:
            self._let_go([pod for pod in self.api.all(POD, key.namespace) if _was_of(pod, key.name)])
            return None
        pods = controlled(self.api, POD, job)
        if is_ending(job):
            self._let_go(pods)
            return None
        if _is_over(job):
            self._let_go(pods)
            return self._expire(job)
        if job["spec"].get("suspend"):
            self._suspend(job, pods)
            return None
        return self._progress(job, pods)

    # While it runs.

    def _progress(self, job: Json, pods: list[Json]) -> float | None:
        status = job.get("status") or {}
        ended = [pod for pod in pods if TRACKED in pod["metadata"].get("finalizers", ()) and not _may_run(pod)]
        tally = JobTally(
            succeeded=int(status.get("succeeded", 0)) + sum(_succeeded(pod) for pod in ended),
            failed=int(status.get("failed", 0)) + sum(not _succeeded(pod) for pod in ended),
            done=_done_indexes(status) | {_index(pod) for pod in ended if _succeeded(pod)},
        )
        active = [pod for pod in pods if _may_run(pod)]
        verdict = self._verdict(job, tally, active)
        wait: float | None = None
        if verdict is not None:
            for pod in active:
                self.api.delete(POD, pod)
            active = []
        else:
            wait = self._fill(job, active, tally)
            active = [pod for pod in controlled(self.api, POD, job) if _may_run(pod)]
        self._tell(job, active, tally, verdict)
        self._let_go(ended)
        return wait

    def _verdict(self, job: Json, tally: JobTally, active: list[Json]) -> JobVerdict | None:
        spec = job["spec"]
        wanted = spec.get("completions")
        if tally.failed > int(spec.get("backoffLimit", 6)):
            text = "Job has reached the specified backoff limit"
            return JobVerdict("Failed", "BackoffLimitExceeded", text)
        left = self._until_deadline(job)
        if left is not None and left <= 0:
            return JobVerdict("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
        if wanted is None:
            # A work queue: the first success says that the work is done, and the rest may finish.
            complete = tally.succeeded > 0 and not active
        else:
            complete = tally.succeeded >= int(wanted)
        return (
            JobVerdict("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
            if complete
            else None
        )

    def _until_deadline(self, job: Json) -> float | None:
        deadline = job["spec"].get("activeDeadlineSeconds")
        started = (job.get("status") or {}).get("startTime")
        if deadline is None or started is None:
            return None
        return float(deadline) - (self.api.now() - moment(started)).total_seconds()

    def _fill(self, job: Json, active: list[Json], tally: JobTally) -> float | None:
        """Start what is missing, not faster than failures allow; when to look again."""
        spec = job["spec"]
        parallel = int(spec.get("parallelism", 1))
        wanted = spec.get("completions")
        if wanted is None:
            room = parallel - len(active) if not tally.succeeded else 0
        else:
            room = min(parallel, int(wanted) - tally.succeeded) - len(active)
        for pod in sorted(active, key=key_of)[: max(-room, 0)]:
            self.api.delete(POD, pod)
        pause = self._pause(job, tally.failed) if room > 0 else 0.0
        if room > 0 and not pause:
            taken = tally.done | {_index(pod) for pod in active}
            for _ in range(room):
                taken.add(self._start(job, taken))
        waits = [wait for wait in (self._until_deadline(job), pause or None) if wait is not None]
        return max(min(waits), 1.0) if waits else None

    def _pause(self, job: Json, failed: int) -> float:
        """Seconds left until the next pod may follow the last failure."""
        if not failed:
            return 0.0
        ends = [
            moment(_finished_at(pod)).timestamp()
            for pod in controlled(self.api, POD, job)
            if pod.get("status", {}).get("phase") == "Failed" and _finished_at(pod)
        ]
        if not ends:
            return 0.0
        allowed = max(ends) + doubled(BACKOFF_FIRST, failed, BACKOFF_LONGEST)
        return max(allowed - self.api.now().timestamp(), 0.0)

    def _start(self, job: Json, taken: set[str]) -> str:
        template: Json = copied(job["spec"]["template"])
        meta = template.setdefault("metadata", {})
        meta["finalizers"] = [*(meta.get("finalizers") or ()), TRACKED]
        name, index = job["metadata"]["name"], ""
        labels = {
            "batch.kubernetes.io/job-name": name,
            "job-name": name,
            "batch.kubernetes.io/controller-uid": job["metadata"]["uid"],
            "controller-uid": job["metadata"]["uid"],
        }
        if job["spec"].get("completionMode") == "Indexed":
            index = next(str(number) for number in range(int(job["spec"]["completions"])) if str(number) not in taken)
            meta.setdefault("annotations", {})[INDEX] = index
            labels[INDEX] = index
        create_pod(self.api, job, template, labels)
        return index

    def _suspend(self, job: Json, pods: list[Json]) -> None:
        for pod in pods:
            if _may_run(pod):
                self.api.delete(POD, pod)
        now = self.api.now_text()

        def edit(status: Json) -> None:
            status.pop("startTime", None)
            status.pop("active", None)
            status.pop("ready", None)
            set_condition(
                status, "Suspended", "True", now, reason="JobSuspended", message="Job suspended", lastProbeTime=now
            )

        self.api.edit_status(JOB, *key_of(job), edit)
        self._let_go([pod for pod in pods if not _may_run(pod)])

    # What is written down.

    def _tell(self, job: Json, active: list[Json], tally: JobTally, verdict: JobVerdict | None) -> None:
        now = self.api.now_text()
        counts = {
            "active": len(active),
            "ready": sum(map(is_ready, active)),
            "succeeded": tally.succeeded,
            "failed": tally.failed,
            "completedIndexes": _ranges(tally.done),
        }

        def edit(status: Json) -> None:
            status.setdefault("startTime", now)
            status["uncountedTerminatedPods"] = {}
            status["terminating"] = 0
            for name, value in counts.items():
                if value or name == "ready":
                    status[name] = value
                else:
                    status.pop(name, None)
            if any(row["type"] == "Suspended" for row in status.get("conditions", ())):
                set_condition(
                    status, "Suspended", "False", now, reason="JobResumed", message="Job resumed", lastProbeTime=now
                )
            if verdict is not None:
                _conclude(status, verdict, now)

        self.api.edit_status(JOB, *key_of(job), edit)
        if verdict is not None:
            kind, reason = ("Normal", "Completed") if verdict.kind == "Complete" else ("Warning", verdict.reason)
            self.api.event(job, kind, reason, verdict.message)

    def _let_go(self, pods: list[Json]) -> None:
        for pod in pods:
            if TRACKED in pod["metadata"].get("finalizers", ()):
                self.api.edit(POD, *key_of(pod), _untrack)

    def _expire(self, job: Json) -> float | None:
        """Delete it once it has been over for long enough."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        rows = [row for row in job["status"]["conditions"] if row["type"] in {"Complete", "Failed"}]
        over_since = moment(rows[0]["lastTransitionTime"])
        left = float(ttl) - (self.api.now() - over_since).total_seconds()
        if left > 0:
            return left
        self.api.delete(JOB, job, propagation="Foreground")
        return None


def _conclude(status: Json, verdict: JobVerdict, now: str) -> None:
    early = "SuccessCriteriaMet" if verdict.kind == "Complete" else "FailureTarget"
    for kind in (early, verdict.kind):
        set_condition(status, kind, "True", now, reason=verdict.reason, message=verdict.message, lastProbeTime=now)
    if verdict.kind == "Complete":
        status["completionTime"] = now


def _was_of(pod: Json, job: str) -> bool:
    """A pod that a job of this name, now gone, has left behind."""
    return bool((pod["metadata"].get("labels") or {}).get("batch.kubernetes.io/job-name") == job)


def _untrack(pod: Json) -> None:
    kept = [name for name in pod["metadata"].get("finalizers", ()) if name != TRACKED]
    if kept:
        pod["metadata"]["finalizers"] = kept
    else:
        pod["metadata"].pop("finalizers", None)


def _is_over(job: Json) -> bool:
    return is_true(job, "Complete") or is_true(job, "Failed")


def _may_run(pod: Json) -> bool:
    """Still to be counted on. One that is being deleted is replaced at once, and counts as failed when it ends."""
    return is_active(pod)


def _succeeded(pod: Json) -> bool:
    return bool(pod.get("status", {}).get("phase") == "Succeeded")


def _finished_at(pod: Json) -> str:
    rows = pod.get("status", {}).get("containerStatuses") or ()
    ends = [row["state"]["terminated"]["finishedAt"] for row in rows if "terminated" in row["state"]]
    return max(ends, default="")


def _index(pod: Json) -> str:
    return str((pod["metadata"].get("annotations") or {}).get(INDEX, ""))


def _done_indexes(status: Json) -> set[str]:
    done: set[str] = set()
    for part in filter(None, str(status.get("completedIndexes", "")).split(",")):
        first, _, last = part.partition("-")
        done.update(str(number) for number in range(int(first), int(last or first) + 1))
    return done


def _ranges(done: set[str]) -> str:
    """`0-3,5`: as the status writes them."""
    numbers = sorted(int(index) for index in done if index)
    parts: list[list[int]] = []
    for number in numbers:
        if parts and number == parts[-1][-1] + 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
