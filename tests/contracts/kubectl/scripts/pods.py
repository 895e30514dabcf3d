"""Pods: made, shown in every form, changed in every way, watched."""

from tests.contracts.kubectl.script import Meanwhile, Script, run

POD = """
apiVersion: v1
kind: Pod
metadata:
  name: train
  labels: {app: train, tier: batch}
spec:
  automountServiceAccountToken: false
  serviceAccountName: trainer
  terminationGracePeriodSeconds: 5
  nodeSelector: {tgp.io/gpu-type: A100}
  containers:
  - name: main
    image: example.org/train:1
    command: [train, --epochs, "3"]
    ports: [{containerPort: 8080, name: http}]
    env:
    - {name: MODE, value: fast}
    - name: KEY
      valueFrom: {secretKeyRef: {name: keys, key: api}}
    resources:
      requests: {cpu: 500m, memory: 1Gi}
      limits: {nvidia.com/gpu: 1, memory: 1Gi}
    livenessProbe: {httpGet: {path: /healthz, port: http}, periodSeconds: 7}
    volumeMounts: [{name: scratch, mountPath: /scratch}]
  - name: side
    image: example.org/side:2
  tolerations:
  - {key: tgp.io/ephemeral, operator: Exists, effect: NoSchedule}
  volumes:
  - name: scratch
    emptyDir: {sizeLimit: 1Gi}
"""
OTHER = """
apiVersion: v1
kind: Pod
metadata: {name: idle, labels: {app: idle}}
spec:
  automountServiceAccountToken: false
  containers: [{name: main, image: example.org/idle:1}]
"""
RUNNING = """{"status": {"phase": "Running", "podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}],
 "conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
 "containerStatuses": [
  {"name": "main", "ready": true, "restartCount": 2, "image": "example.org/train:1", "imageID": "",
   "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}},
  {"name": "side", "ready": false, "restartCount": 0, "image": "example.org/side:2", "imageID": "",
   "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]}}"""
NEW_IMAGE = """[{"op": "replace", "path": "/spec/containers/1/image", "value": "a:4"}]"""
DONE = """{"status": {"phase": "Succeeded", "containerStatuses": [
  {"name": "main", "ready": false, "restartCount": 0, "image": "x", "imageID": "",
   "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}}"""

GO_DIFF = "the real server adds a comparison of two Go structs"

PODS = (
    Script(
        "pods shown",
        (
            run("get pods", says="No resources found"),
            run("create -f -", POD, says="pod/train created"),
            run("create -f -", OTHER),
            run("get pods", says=("NAME", "READY", "STATUS", "train", "0/2", "Pending")),
            run("get pod train -o wide", says=("NOMINATED NODE", "<none>")),
            run("get po train -o yaml", says=("kind: Pod", "nvidia.com/gpu")),
            run("get po train -o json", says='"restartPolicy": "Always"'),
            run("get pods -o name", says="pod/train"),
            run("get pods -o jsonpath='{.items[*].metadata.name}'", says="idle train"),
            run("get pods -o custom-columns=NAME:.metadata.name,IMAGE:.spec.containers[0].image"),
            run("get pods --show-labels", says="app=train,tier=batch"),
            run("get pods -L app", says="APP"),
            run("get pods -l app=train", says="train", never_says="idle"),
            run("get pods -l 'app in (idle),!tier'", says="idle", never_says="train"),
            run("get pods -l app=absent", says="No resources found"),
            run("get pods --field-selector status.phase=Pending", says="idle"),
            run("get pods --field-selector metadata.name=idle", never_says="train"),
            run("get pods --field-selector spec.colour=red", fails=True, says="field label not supported"),
            run("get pods -A --field-selector metadata.namespace=kubectl-pods-shown", says="kubectl-pods-shown"),
            run("get pods --no-headers --sort-by=.metadata.name", never_says="NAME"),
            run("get pods --chunk-size=1", says=("idle", "train")),
            run(
                "describe pod train",
                says=("Containers:", "Limits:", "tgp.io/ephemeral:NoSchedule op=Exists", "QoS Class:"),
            ),
            run("get pod absent", fails=True, says='pods "absent" not found'),
            run("get pods,cm --ignore-not-found", says="pod/train"),
            run("create -f -", POD, fails=True, says="AlreadyExists"),
        ),
    ),
    Script(
        "pods changed",
        (
            run("create -f -", POD),
            run("label pod train tier=web --overwrite", says="labeled"),
            run("label pod train tier=other", fails=True, says="already has a value"),
            run("label pod train tier-", says="unlabeled"),
            run("annotate pod train note='by hand'", says="annotated"),
            run("annotate pod train note-"),
            run(f"patch pod train --subresource=status --type=merge -p '{RUNNING}'", says="patched"),
            run("get pod train", says=("ImagePullBackOff", "1/2")),
            run("get pod train -o wide", says="10.1.2.3"),
            run("""patch pod train -p '{"spec":{"containers":[{"name":"side","image":"example.org/side:3"}]}}'"""),
            run(
                "get pod train -o jsonpath='{.spec.containers[*].image}'", says="example.org/train:1 example.org/side:3"
            ),
            run(f"patch pod train --type=json -p '{NEW_IMAGE}'"),
            run("""patch pod train --type=json -p '[{"op":"test","path":"/spec/nodeName","value":"x"}]'""", fails=True),
            run("""patch pod train --type=merge -p '{"metadata":{"labels":{"tier":"gold","app":null}}}'"""),
            run("get pod train --show-labels", says="tier=gold", never_says="app="),
            run("""patch pod train -p '{"metadata":{"labels":{"tier":"gold"}}}'""", says="no change"),
            run(
                """patch pod train -p '{"spec":{"restartPolicy":"Never"}}'""",
                fails=True,
                says="Forbidden",
                unlike=GO_DIFF,
            ),
            run("describe pod train", says=("ImagePullBackOff", "Restart Count:")),
            run(f"patch pod train --subresource=status --type=merge -p '{DONE}'"),
            run("get pod train", says="Completed"),
            run("set image pod/train side=example.org/side:5", says="image updated"),
            run("delete pod train --grace-period=0 --force", says="force deleted"),
            run("get pods", says="No resources found"),
        ),
    ),
    Script(
        "pods watched",
        (
            run("create -f -", POD),
            Meanwhile(
                run("get pods -w"),
                (
                    run("create -f -", OTHER),
                    run(f"patch pod train --subresource=status --type=merge -p '{RUNNING}'"),
                    run("delete pod idle --wait=false", says="deleted"),
                ),
                starts_with=2,
                lines=6,  # a deletion is two: it is asked for, and then it is gone
            ),
            Meanwhile(
                run("get pods -w -o wide --output-watch-events -l app=train"),
                (run("label pod train app=gone --overwrite"),),
                starts_with=2,
                lines=3,
            ),
            Meanwhile(run("wait pod/train --for=delete --timeout=20s"), (run("delete pod train --now"),)),
            Meanwhile(
                run("wait pod/idle2 --for=create --timeout=20s"),
                (run("create -f -", OTHER.replace("name: idle,", "name: idle2,")),),
                asked="404 Not Found",
            ),
            Meanwhile(
                run("wait pod/idle2 --for=jsonpath='{.status.phase}'=Succeeded --timeout=20s", says="condition met"),
                (run(f"patch pod idle2 --subresource=status --type=merge -p '{DONE}'"),),
            ),
            run("wait pod/idle2 --for=condition=Ready --timeout=1s", fails=True, says="timed out waiting"),
        ),
    ),
)
