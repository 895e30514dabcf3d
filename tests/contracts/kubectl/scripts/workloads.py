"""Controllers of pods, on servers where no controller runs: what is written stays as it was written."""

from tests.contracts.kubectl.script import Meanwhile, Script, run

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: "example.org/web:1", ports: [{containerPort: 80}]}
      - {name: log, image: "example.org/log:1"}
"""
ROLLED_OUT = """{"status": {"observedGeneration": %d, "replicas": %d, "updatedReplicas": %d, "readyReplicas": %d,
 "availableReplicas": %d, "conditions": [{"type": "Available", "status": "True", "reason": "Enough"}]}}"""
SETS = """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web-1, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchExpressions: [{key: app, operator: In, values: [web, also]}]}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: "example.org/web:1"}]}}
---
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: driver}
spec:
  selector: {matchLabels: {app: driver}}
  template:
    metadata: {labels: {app: driver}}
    spec: {nodeSelector: {gpu: "true"}, containers: [{name: driver, image: "example.org/driver:1"}]}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: store}
spec:
  serviceName: store
  replicas: 3
  selector: {matchLabels: {app: store}}
  template: {metadata: {labels: {app: store}}, spec: {containers: [{name: store, image: "example.org/store:1"}]}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {maxUnavailable: 50%, selector: {matchLabels: {app: web}}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: store}
spec: {minAvailable: 1, selector: {matchLabels: {app: store}}}
"""
JOB_DONE = """{"status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:05:10Z",
 "conditions": [
  {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": "2026-01-01T00:05:10Z"},
  {"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T00:05:10Z"}]}}"""


def _rolled_out(generation: int, replicas: int) -> str:
    status = ROLLED_OUT % (generation, replicas, replicas, replicas, replicas)
    return f"patch deployment web --subresource=status --type=merge -p '{status}'"


WORKLOADS = (
    Script(
        "deployments",
        (
            run("apply -f -", DEPLOYMENT, says="deployment.apps/web created"),
            run("get deployments", says=("UP-TO-DATE", "0/2")),
            run("get deploy web -o wide", says=("web,log", "app=web")),
            run("describe deployment web", says=("RollingUpdate", "25% max unavailable, 25% max surge")),
            run("rollout status deployment web --timeout=1s", fails=True, says="Waiting for deployment"),
            run(_rolled_out(1, 2)),
            run("rollout status deployment web --timeout=5s", says="successfully rolled out"),
            run("get deploy", says="2/2"),
            run("wait deployment/web --for=condition=Available --timeout=5s", says="condition met"),
            run("scale deployment web --replicas=3", says="scaled"),
            run(
                "scale deployment web --replicas=4 --current-replicas=7",
                fails=True,
                says="Expected replicas to be 7, was 3",
            ),
            run("get deploy web -o jsonpath='{.spec.replicas} {.metadata.generation}'", says="3 2"),
            run("get deploy web --subresource=scale", says=("DESIRED", "AVAILABLE")),
            run("get deploy web --subresource=scale -o yaml", says="kind: Scale"),
            run("set image deployment/web web=example.org/web:2", says="image updated"),
            run("rollout restart deployment web", says="restarted"),
            run("rollout pause deployment web", says="paused"),
            run("rollout history deployment web"),
            run("apply -f -", DEPLOYMENT.replace("web:1", "web:3"), says="configured"),
            run("get deploy web -o jsonpath='{.spec.template.spec.containers[*].image}'", says="example.org/web:3"),
            run("delete deployment web", says="deleted"),
        ),
    ),
    Script(
        "sets and budgets",
        (
            run("apply -f -", SETS),
            run("get rs,ds,sts,pdb -o wide", says=("web-1", "driver", "store", "N/A", "50%")),
            run("get all", says=("replicaset.apps/web-1", "daemonset.apps/driver", "statefulset.apps/store")),
            run("describe rs web-1", says="Selector:"),
            run("describe ds driver", says="Node-Selector"),
            run("describe pdb web", says="Max unavailable:"),
            run("scale sts store --replicas=1"),
            run("get sts store", says="0/1"),
            run("apply -f -", SETS, says="replicaset.apps/web-1 unchanged"),
        ),
    ),
    Script(
        "jobs",
        (
            run("create job train --image=example.org/train:1 -- train --fast", says="job.batch/train created"),
            run("get jobs", says=("COMPLETIONS", "Running", "0/1")),
            run("get job train -o wide", says="batch.kubernetes.io/controller-uid="),
            run("describe job train", says=("Parallelism:", "Completion Mode:")),
            Meanwhile(
                run("wait job/train --for=condition=complete --timeout=20s", says="condition met"),
                (run(f"patch job train --subresource=status --type=merge -p '{JOB_DONE}'"),),
            ),
            run("get jobs", says=("Complete", "1/1", "5m10s")),
            run("create cronjob nightly --image=example.org/n:1 --schedule='0 3 * * *'", says="created"),
            run("get cronjobs -o wide", says=("0 3 * * *", "<none>", "False")),
            run("describe cronjob nightly", says="Concurrency Policy:"),
            run("create job now --from=cronjob/nightly", says="created"),
            run("get job now -o jsonpath='{.metadata.ownerReferences[0].kind}'", says="CronJob"),
            run("delete job train --cascade=background", says="deleted"),
        ),
    ),
)
