"""Who may do what, and who is asking."""

from tests.contracts.kubectl.script import Script, run

RULES = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [pods, pods/log], verbs: [get, list, watch]}
- {apiGroups: [apps], resources: [deployments], resourceNames: [web], verbs: [patch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: readers}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects:
- {kind: User, name: alice, apiGroup: rbac.authorization.k8s.io}
- {kind: Group, name: team, apiGroup: rbac.authorization.k8s.io}
- {kind: ServiceAccount, name: robot, namespace: kubectl-access}
"""
# For the public half of a pair whose other half was never kept.
SIGNING_REQUEST = """
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: kubectl-node}
spec:
  request: "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIUk1Ia0NBUUF3RnpFVk1CTUdBMVVFQXd3TWEzVmlaV04wYkMx\
MFpYTjBNRmt3RXdZSEtvWkl6ajBDQVFZSQpLb1pJemowREFRY0RRZ0FFSElkSmgxM2hnQ2JMdE1IZmdOeHB3RkxQMk9mZXlINDhq\
MVNwMkN0MzB2bFdOaUlICmFFd05sS3NzdW1TOUhmSGdWTGVXUDgzSHZPWEZYZEJCU1BBYVlhQUFNQW9HQ0NxR1NNNDlCQU1DQTBn\
QU1FVUMKSUJLNjgwallBR3dMQjQ1bmRaQ2M3UzVLbUp1SzVibzd4NzRYSi85RmhNNTNBaUVBdFl0NWptNWpFZ01rcUE3YQpQWi9n\
T3hUaW1lQ3MzK2tjc3p0L3VZbXQzaFE9Ci0tLS0tRU5EIENFUlRJRklDQVRFIFJFUVVFU1QtLS0tLQo="
  signerName: kubernetes.io/kube-apiserver-client
  expirationSeconds: 86400
  usages: [client auth]
"""
AS_ALICE = "--as=alice --as-group=system:masters"
DIFFERENT_PEOPLE = "the two servers have differently named administrators"

ACCESS = (
    Script(
        "access",
        (
            run("auth whoami", says=("Username", "system:masters"), unlike=DIFFERENT_PEOPLE),
            run("auth whoami --as=alice --as-group=team", says=("alice", "team")),
            run("auth can-i create pods", says="yes"),
            run("auth can-i get pods --as=alice", fails=True, says="no"),
            run("apply -f -", RULES),
            run("auth can-i get pods --as=alice", says="yes"),
            run("auth can-i get pods/log --as=alice", says="yes"),
            run("auth can-i get pods --subresource=log --as=bob --as-group=team", says="yes"),
            run("auth can-i delete pods --as=alice", fails=True, says="no"),
            run("auth can-i patch deployments.apps/web --as=alice", says="yes"),
            run("auth can-i patch deployments.apps/shop --as=alice", fails=True, says="no"),
            run("auth can-i list pods --as=system:serviceaccount:kubectl-access:robot", says="yes"),
            run("auth can-i get pods --as=alice -n default", fails=True, says="no"),
            run("auth can-i '*' '*'", says="yes"),
            run("auth can-i get /metrics --as=alice", fails=True, says="no"),
            run("auth can-i get gadgets", says="Warning: the server doesn't have a resource type 'gadgets'"),
            run("get pods --as=alice", says="No resources found"),
            run("get secrets --as=alice", fails=True, says='User "alice" cannot list resource "secrets"'),
            run("create configmap no --as=alice", fails=True, says="forbidden"),
            run("get role,rolebinding -o wide", says=("Role/reader", "alice", "kubectl-access/robot")),
            run("describe role reader", says=("pods/log", "[get list watch]")),
            run("describe rolebinding readers", says="ServiceAccount"),
            run("create clusterrole kubectl-ops --verb=get,list --resource=nodes,pods", says="created"),
            run("create clusterrolebinding kubectl-ops --clusterrole=kubectl-ops --user=carol", says="created"),
            run("auth can-i list nodes --as=carol", says="yes"),
            run("get clusterrolebinding kubectl-ops -o wide", says="ClusterRole/kubectl-ops"),
            run("delete clusterrole,clusterrolebinding kubectl-ops", says="deleted"),
            run("create serviceaccount robot"),
            run("create token robot", unlike="a token is a secret of its server"),
        ),
    ),
    Script(
        "certificates",
        (
            run(f"create -f - {AS_ALICE}", SIGNING_REQUEST, says="created"),
            run("get csr kubectl-node", says=("alice", "24h", "Pending")),
            run("describe csr kubectl-node", says=("Requesting User:", "kubectl-test")),
            run("certificate approve kubectl-node", says="approved"),
            run("get csr kubectl-node", says="Approved"),
            run("certificate deny kubectl-node", fails=True, says="Approved"),
            run("get csr kubectl-node -o jsonpath='{.status.conditions[*].type}'", says="Approved"),
            run("delete csr kubectl-node", says="deleted"),
        ),
    ),
)
