"""What budgets look for by namespace: pods and Jobs with a mark of ours, and pods that will start."""

from tgp.core.budgets.pause import PAUSED_AT
from tgp.core.model.pod import COUNTED, Pod
from tgp.core.model.workload import Job

BUDGET_PODS = "budgets"
PAUSED_JOBS = "paused"


def marked(namespace: str) -> str:
    return f"marked/{namespace}"


def unplaced(namespace: str) -> str:
    return f"unplaced/{namespace}"


def by_budget_mark(pod: Pod) -> tuple[str, ...]:
    ours = PAUSED_AT in pod.annotations or COUNTED in pod.finalizers
    found = (marked(pod.key.namespace),) if ours else ()
    return found if pod.node or pod.gates else (*found, unplaced(pod.key.namespace))


def by_pause(job: Job) -> tuple[str, ...]:
    return (job.key.namespace,) if PAUSED_AT in job.annotations else ()
