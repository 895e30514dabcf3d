"""Nodes, Namespaces, Events and Leases."""

from tests.contracts.kubectl.script import Script, run

NODE = """
apiVersion: v1
kind: Node
metadata:
  name: gpu-1
  labels: {node-role.kubernetes.io/worker: "", kubernetes.io/os: linux, tgp.io/gpu-type: A100, part: kubectl}
spec:
  providerID: tgp://simulated/tgp-1
  podCIDR: 10.244.7.0/24
  taints: [{key: tgp.io/ephemeral, effect: NoSchedule}]
"""
NODE_STATUS = """{"status": {
 "capacity": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "1", "pods": "110"},
 "allocatable": {"cpu": "7500m", "memory": "60Gi", "nvidia.com/gpu": "1", "pods": "110"},
 "addresses": [{"type": "InternalIP", "address": "10.9.8.7"}, {"type": "Hostname", "address": "gpu-1"}],
 "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Talos (v1.12.0)", "kernelVersion": "6.12.0",
  "containerRuntimeVersion": "containerd://2.0.0", "architecture": "amd64", "operatingSystem": "linux",
  "machineID": "m", "systemUUID": "s", "bootID": "b", "kubeProxyVersion": ""},
 "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ready",
  "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}"""
WORKER_POD = """
apiVersion: v1
kind: Pod
metadata: {name: worker}
spec:
  automountServiceAccountToken: false
  serviceAccountName: worker
  nodeName: gpu-1
  tolerations: [{operator: Exists}]
  containers:
  - name: main
    image: example.org/worker:1
    resources: {requests: {cpu: "2", memory: 4Gi}, limits: {nvidia.com/gpu: 1}}
"""
EVENTS = """
apiVersion: v1
kind: Event
metadata: {name: worker.1}
involvedObject: {apiVersion: v1, kind: Pod, name: worker, namespace: kubectl-events, fieldPath: "spec.containers{main}"}
type: Warning
reason: BackOff
message: Back-off pulling image
count: 3
firstTimestamp: "2026-01-01T00:00:00Z"
lastTimestamp: "2026-01-01T01:00:00Z"
source: {component: kubelet, host: gpu-1}
---
apiVersion: events.k8s.io/v1
kind: Event
metadata: {name: worker.2}
regarding: {apiVersion: v1, kind: Pod, name: worker, namespace: kubectl-events}
type: Normal
reason: Pulled
note: Image is there
action: Pull
eventTime: "2026-01-01T02:00:00.000000Z"
reportingController: tgp.io/operator
reportingInstance: operator-0
"""
LEASE = """
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: tgp-operator}
spec: {holderIdentity: operator-0, leaseDurationSeconds: 15, leaseTransitions: 4}
"""

CLUSTER = (
    Script(
        "nodes",
        (
            run("create -f -", NODE, says="node/gpu-1 created"),
            run("get node gpu-1", says=("Unknown", "worker")),
            run(f"patch node gpu-1 --subresource=status -p '{NODE_STATUS}'"),
            run(
                "get nodes -o wide --field-selector metadata.name=gpu-1",
                says=("Ready", "Talos (v1.12.0)", "6.12.0 (amd64)"),
            ),
            run("get node gpu-1 -o yaml"),
            run("create -f -", WORKER_POD),
            run(
                "describe node gpu-1", says=("Non-terminated Pods:", "nvidia.com/gpu", "worker", "Allocated resources:")
            ),
            run("cordon gpu-1", says="node/gpu-1 cordoned"),
            run("cordon gpu-1", says="already cordoned"),
            run("get node gpu-1", says="Ready,SchedulingDisabled"),
            run("uncordon gpu-1", says="node/gpu-1 uncordoned"),
            run("taint node gpu-1 team=a:NoExecute", says="tainted"),
            run("taint node gpu-1 team=a:NoExecute", fails=True, says="already has team taint"),
            run("taint node gpu-1 team=b:NoExecute --overwrite", says="modified"),
            run("taint node gpu-1 team-", says="untainted"),
            run("get node gpu-1 -o jsonpath='{.spec.taints[*].key}'", says="tgp.io/ephemeral"),
            run("label node gpu-1 tgp.io/spot=true"),
            run("get nodes -L tgp.io/spot -l part=kubectl,tgp.io/gpu-type=A100", says="true"),
            run("get pods --field-selector spec.nodeName=gpu-1", says="worker"),
            run(
                "drain gpu-1 --force --grace-period=0 --timeout=20s", says=("pod/worker evicted", "node/gpu-1 drained")
            ),
            run("get pods", says="No resources found"),
            run("delete node gpu-1", says='node "gpu-1" deleted'),
        ),
    ),
    Script(
        "events",
        (
            run("create -f -", WORKER_POD.replace("nodeName: gpu-1", "nodeName: gpu-0")),
            run("create -f -", EVENTS, says=("event/worker.1", "worker.2 created")),
            run("get events", says=("LAST SEEN", "BackOff", "pod/worker", "Image is there")),
            run("get events -o wide", says=("spec.containers{main}", "kubelet, gpu-0"[:8])),
            run("get events.events.k8s.io", says="Pulled"),
            run("get events --field-selector reason=BackOff", says="Back-off", never_says="Pulled"),
            run(
                "get events --field-selector involvedObject.name=worker,type=Normal",
                says="Pulled",
                never_says="BackOff",
            ),
            run("get event worker.2 -o yaml", says="message: Image is there"),
            run("get events.events.k8s.io worker.1 -o yaml", says="note: Back-off pulling image"),
            run("events --for pod/worker", says=("Warning", "BackOff")),
            run("events --types=Warning", says="BackOff", never_says="Pulled"),
            run("describe pod worker", says="Events:"),
        ),
    ),
    Script(
        "namespaces and leases",
        (
            run("get namespace kubectl-namespaces-and-leases", says="Active"),
            run("get ns kubectl-namespaces-and-leases -o yaml"),
            run("describe ns kubectl-namespaces-and-leases", says="No resource quota."),
            run("label ns kubectl-namespaces-and-leases part=kubectl"),
            run("get ns -l part=kubectl --show-labels", says="kubernetes.io/metadata.name="),
            run("create -f -", LEASE),
            run("get leases", says=("HOLDER", "operator-0")),
            run("describe lease tgp-operator", says="Holder Identity"),
            run("create namespace 'Not A Name'", fails=True, says="Invalid value"),
        ),
    ),
)
