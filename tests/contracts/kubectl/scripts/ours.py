"""The operator's own kinds, from the definitions it ships."""

from pathlib import Path

from tests.contracts.kubectl.script import Meanwhile, Script, run

DEFINITIONS = Path(__file__).parents[4] / "deploy" / "crds"
CLASS = """
apiVersion: tgp.io/v1
kind: GPUNodeClass
metadata: {name: kubectl-class, labels: {part: kubectl}}
spec:
  providers: [{name: simulated}, {name: runpod, enabled: false, priority: 2}]
  limits: {maxNodes: 4, maxHourlyCost: "10.0"}
"""
POOL = """
apiVersion: tgp.io/v1
kind: GPUNodePool
metadata: {name: pool, labels: {part: kubectl}}
spec:
  nodeClassRef: {kind: GPUNodeClass, name: kubectl-class}
  template:
    metadata: {labels: {team: a}}
    spec:
      requirements: [{key: tgp.io/gpu-type, operator: In, values: [A100, H100]}]
      taints: [{key: gpu-node, value: "true", effect: NoSchedule}]
  disruption: {consolidateAfter: 5m, budgets: [{nodes: 20%}]}
  maxHourlyPrice: "2.0"
  weight: 10
"""
REQUEST = """
apiVersion: tgp.io/v1
kind: GPURequest
metadata: {name: train, labels: {part: kubectl}, finalizers: [tgp.io/machine]}
spec: {gpuType: A100, gpuCount: 2, maxHourlyPrice: "4.0", idleTimeout: 1h}
"""
BUDGET = """
apiVersion: tgp.io/v1
kind: GPUWorkloadBudget
metadata: {name: team, labels: {part: kubectl}}
spec:
  selector: {matchLabels: {team: a}}
  quota: {gpuHours: "100", windowHours: 24}
  enforcement: {action: AlertOnly}
"""
ALL = f"{CLASS}---{POOL}---{REQUEST}---{BUDGET}"
READY = """{"status": {"phase": "Ready", "selectedProvider": "simulated", "hourlyPrice": "1.500000",
 "nodeName": "gpu-7", "conditions": [{"type": "Ready", "status": "True", "reason": "Joined", "message": "it is there",
 "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"""

OURS = (
    Script(
        "our kinds",
        (
            run(
                f"apply --server-side --force-conflicts -f {DEFINITIONS}", says="gpunodepools.tgp.io serverside-applied"
            ),
            run("wait crd gpunodeclasses.tgp.io gpunodepools.tgp.io --for=condition=Established --timeout=20s"),
            run("wait crd gpurequests.tgp.io gpuworkloadbudgets.tgp.io --for=condition=Established --timeout=20s"),
            run("api-resources --api-group=tgp.io -o wide", says=("gnc", "gwb,gwbs", "tgp")),
            run("explain gpunodepool.spec.disruption.budgets", says=("FIELDS:", "nodes", "schedule")),
            run("explain gnc.spec.providers", says="-required-"),
            run("explain gpurequest.spec --recursive", says="maxLifetime"),
            run("explain gwb.spec.enforcement.action", says=("ENUM:", "AlertOnly")),
            run("apply -f -", ALL, says=("gpunodepool.tgp.io/pool created", "gpurequest.tgp.io/train created")),
            run(
                "apply -f -",
                ALL,
                says=("gpunodepool.tgp.io/pool unchanged", "gpurequest.tgp.io/train unchanged"),
            ),
            run("get tgp -l part=kubectl", says=("kubectl-class", "gpunodepool.tgp.io/pool", "A100", "AlertOnly")),
            run("get tgp -l part=kubectl -o wide", says="CONSOLIDATION"),
            run("get gnp pool -o yaml"),
            run("get gr train -o json", says='"gpuCount": 2'),
            run("get gnc kubectl-class -o jsonpath='{.spec.selection}'", says="Price"),
            run("get gr -A -l part=kubectl", says="kubectl-our-kinds"),
            run("describe gnp pool", says=("Consolidate After:", "Requirements:")),
            run("describe gwb team", says="Window Hours:"),
            Meanwhile(
                run("wait gr/train --for=condition=Ready --timeout=20s", says="condition met"),
                (run(f"patch gr train --subresource=status --type=merge -p '{READY}'"),),
            ),
            run("get gr train -o wide", says=("Ready", "simulated", "gpu-7", "Joined")),
            Meanwhile(
                run("get gnp -w"),
                (run("""patch gnp pool --type=merge -p '{"spec":{"weight":20,"mode":"Observe"}}'"""),),
                starts_with=2,
                lines=3,
            ),
            run("""patch gr train --type=merge -p '{"spec":{"gpuType":"H100"}}'""", fails=True, says="gpuType"),
            run("""patch gr train --type=merge -p '{"spec":{"idleTimeout":"2h"}}'""", says="patched"),
            run("apply -f -", POOL.replace("weight: 10", "weight: 101"), fails=True, says="spec.weight"),
            run("apply -f -", POOL.replace("effect: NoSchedule", "effect: Never"), fails=True, says="effect"),
            run("create -f -", BUDGET.replace("name: team,", "name: none,").replace("{team: a}", "{}"), fails=True),
            run("apply --server-side -f -", REQUEST.replace("train", "other"), says="serverside-applied"),
            run("apply --server-side -f -", REQUEST.replace("train", "other"), says="serverside-applied"),
            run("get gr other -o yaml --show-managed-fields"),
            run("label gnp pool tier=gold"),
            run("annotate gr train tgp.io/do-not-disrupt=true"),
            run("delete gr train --wait=false", says="deleted"),
            run("get gr train -o jsonpath='{.metadata.finalizers}'", says="tgp.io/machine"),
            Meanwhile(
                run("wait gr/train --for=delete --timeout=20s", says="condition met"),
                (run("""patch gr train --type=merge -p '{"metadata":{"finalizers":null}}'"""),),
            ),
            run("""patch gr other --type=merge -p '{"metadata":{"finalizers":[]}}'"""),
            run("delete gnc,gnp,gr,gwb -l part=kubectl", says=('"pool" deleted', '"kubectl-class" deleted')),
        ),
    ),
)
