"""Secrets, ConfigMaps, Services, ServiceAccounts and what else is only data."""

from tests.contracts.kubectl.script import Script, run

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {one: "1", two: "2"}
binaryData: {raw: AAEC}
"""
SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: typed}
type: Opaque
stringData: {plain: text}
"""
SERVICE = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: 8080}, {name: dns, port: 53, protocol: UDP}]
"""
CLASSES = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: kubectl-urgent}
value: 1000
description: for tests
---
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: kubectl-nvidia}
handler: nvidia
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: kubectl-fast, annotations: {storageclass.kubernetes.io/is-default-class: "false"}}
provisioner: example.org/disk
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: kubectl-claim}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: kubectl-fast
  resources: {requests: {storage: 1Gi}}
"""
OTHERS = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: few}
spec: {hard: {pods: "3", limits.cpu: "4"}}
---
apiVersion: v1
kind: LimitRange
metadata: {name: small}
spec: {limits: [{type: Container, default: {cpu: 100m}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed}
spec: {podSelector: {matchLabels: {app: web}}, policyTypes: [Ingress]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: front}
spec:
  ingressClassName: outer
  rules:
  - host: example.org
    http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1}
addressType: IPv4
ports: [{name: http, port: 80}]
endpoints: [{addresses: [10.1.0.1]}, {addresses: [10.1.0.2]}, {addresses: [10.1.0.3]}, {addresses: [10.1.0.4]}]
"""

DATA = (
    Script(
        "secrets and settings",
        (
            run(
                "create secret generic keys --from-literal=api=hush --from-literal=other=x", says="secret/keys created"
            ),
            run("apply -f -", SECRET),
            run("get secrets", says=("TYPE", "Opaque", "2")),
            run("get secret keys -o jsonpath='{.data.api}'", says="aHVzaA=="),
            run("get secret typed -o yaml", says="plain: dGV4dA=="),
            run("describe secret keys", says="4 bytes", never_says="hush"),
            run("get secrets --field-selector type=Opaque", says="keys"),
            run("""patch secret keys -p '{"stringData":{"api":"louder"}}'""", says="patched"),
            run("get secret keys -o jsonpath='{.data.api}'", says="bG91ZGVy"),
            run("create secret docker-registry pull --docker-server=r --docker-username=u --docker-password=p"),
            run("get secret pull", says="kubernetes.io/dockerconfigjson"),
            run("create -f -", CONFIG),
            run("get configmaps settings", says="3"),
            run("describe cm settings", says=("two:", "raw: 3 bytes")),
            run("replace -f -", CONFIG.replace('"2"', '"22"'), says="configmap/settings replaced"),
            run("get cm settings -o go-template='{{.data.two}}'", says="22"),
            run("create configmap lit --from-literal=a=b --dry-run=server -o yaml", says="a: b"),
            run("get cm lit", fails=True, says="NotFound"),
            run("replace -f -", CONFIG.replace("settings", "nowhere"), fails=True, says="NotFound"),
            run("""patch cm settings -p '{"immutable":true}'"""),
            run("""patch cm settings -p '{"data":{"one":"11"}}'""", fails=True, says="field is immutable"),
            run("delete cm settings lit --ignore-not-found", says="deleted"),
            run("create -f -", SECRET.replace("name: typed", "name: Bad_Name"), fails=True, says="RFC 1123"),
        ),
    ),
    Script(
        "services and classes",
        (
            run("apply -f -", SERVICE),
            run("get services -o wide", says=("ClusterIP", "80/TCP,53/UDP", "app=web")),
            run("describe service web", says=("Port:", "8080/TCP")),
            run("create service nodeport door --tcp=80:8080", unlike="the node port is drawn by lot"),
            run("create service externalname away --external-name=example.org"),
            run("get svc away", says=("ExternalName", "example.org")),
            run("create serviceaccount robot", says="created"),
            run("get sa robot", says="AGE"),
            run("describe sa robot", says="Image pull secrets:"),
            run("apply -f -", CLASSES),
            run("get priorityclass kubectl-urgent", says="1000"),
            run("get runtimeclass kubectl-nvidia", says="nvidia"),
            run("get storageclass kubectl-fast", says=("Delete", "Immediate")),
            run("get pvc", says="kubectl-claim"),
            run("describe pvc kubectl-claim"),
            run("delete -f - --wait=false", CLASSES, says="deleted"),
        ),
    ),
    Script(
        "quotas and policies",
        (
            run("apply -f -", OTHERS),
            run("apply -f -", OTHERS, says="networkpolicy.networking.k8s.io/closed unchanged"),
            run("get quota,limits,netpol,ing,endpointslices", says=("app=web", "example.org", "+ 1 more...")),
            run("describe netpol closed", says="app=web"),
            run("describe limits small", says="100m"),
        ),
    ),
)
