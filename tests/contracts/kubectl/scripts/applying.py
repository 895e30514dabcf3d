"""`apply` of both kinds, `diff`, `replace`, and what the server says about unknown fields."""

from tests.contracts.kubectl.script import Script, run

CONFIG = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, labels: {team: a}}
data: {one: "1", two: "2"}
"""
WITHOUT_TWO = CONFIG.replace(', two: "2"', "")
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: example.org/web:1
        env: [{name: A, value: "1"}, {name: B, value: "2"}]
        ports: [{containerPort: 80}, {containerPort: 81, protocol: UDP}]
      - {name: log, image: "example.org/log:1"}
"""
FEWER = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: example.org/web:2
        env: [{name: A, value: "1"}]
        ports: [{containerPort: 80}]
"""
TYPO = CONFIG.replace("\ndata:", "\ndatum: {x: y}\ndata:")
DEEP_TYPO = FEWER.replace("image: example.org/web:2", "image: example.org/web:2\n        imagePullPolice: Never")
CONTAINERS = "get deploy web -o jsonpath='{.spec.template.spec.containers}'"

GO_PRINTS = "the real server quotes the patch as Go prints a map"

APPLYING = (
    Script(
        "apply client side",
        (
            run("apply -f -", CONFIG, says="configmap/settings created"),
            run("apply -f -", CONFIG, says="configmap/settings unchanged"),
            run(
                "get cm settings -o yaml --show-managed-fields",
                says=("kubectl-client-side-apply", "last-applied-configuration"),
            ),
            run("diff -f -", CONFIG),
            run(
                "diff -f -",
                WITHOUT_TWO,
                fails=True,
                says='-  two: "2"',
                unlike="it prints the names of temporary files",
            ),
            run("apply -f -", WITHOUT_TWO, says="configured"),
            run("get cm settings -o jsonpath='{.data}'", says='{"one":"1"}'),
            run("apply -f -", WITHOUT_TWO.replace("team: a", "team: b"), says="configured"),
            run("apply view-last-applied cm/settings", says="team: b"),
            run("apply -f -", DEPLOYMENT),
            run("apply -f -", DEPLOYMENT, says="unchanged"),
            run("apply -f -", FEWER, says="configured"),
            run(CONTAINERS, says="example.org/web:2", never_says=("example.org/log", "UDP", '"B"')),
            run("apply -f - --dry-run=server", DEPLOYMENT, says="configured (server dry run)"),
            run(CONTAINERS, never_says="example.org/log"),
            run("apply -f -", TYPO, fails=True, says='unknown field "datum"', unlike=GO_PRINTS),
            run("apply -f - --validate=warn", TYPO, says='Warning: unknown field "datum"'),
            run("apply -f - --validate=ignore", TYPO, never_says="Warning"),
            run(
                "apply -f -",
                DEEP_TYPO,
                fails=True,
                says='unknown field "spec.template.spec.containers[0].imagePullPolice"',
                unlike=GO_PRINTS,
            ),
            run(
                "create -f -",
                CONFIG.replace("settings", "bad").replace('"1"', "1"),
                fails=True,
                says="cannot unmarshal number into Go struct field",
                unlike="which Go struct it was",
            ),
        ),
    ),
    Script(
        "apply server side",
        (
            run("apply --server-side -f -", CONFIG, says="configmap/settings serverside-applied"),
            run("apply --server-side -f -", CONFIG, says="serverside-applied"),
            run(
                "get cm settings -o yaml --show-managed-fields",
                says=("operation: Apply", "manager: kubectl"),
                never_says="last-applied",
            ),
            run("get cm settings -o jsonpath='{.metadata.managedFields[*].manager}'", says="kubectl"),
            run("apply --server-side -f -", WITHOUT_TWO),
            run("get cm settings -o jsonpath='{.data}'", says='{"one":"1"}'),
            run(
                "apply --server-side --field-manager=other -f -",
                CONFIG.replace('"1"', '"9"'),
                fails=True,
                says=("conflict", ".data.one"),
            ),
            run("apply --server-side --field-manager=other --force-conflicts -f -", CONFIG.replace('"1"', '"9"')),
            run("get cm settings -o yaml --show-managed-fields", says="manager: other"),
            run("apply --server-side -f -", WITHOUT_TWO, fails=True, says='conflict with "other"'),
            run("apply --server-side -f -", DEPLOYMENT),
            run("apply --server-side -f -", DEPLOYMENT),
            run("get deploy web -o yaml --show-managed-fields"),
            run("apply --server-side -f -", FEWER),
            run(CONTAINERS, says="example.org/web:2", never_says=("example.org/log", "UDP", '"B"')),
            run("scale deploy web --replicas=5"),
            run("apply --server-side -f -", FEWER, fails=True, says=".spec.replicas"),
            run("apply --server-side -f -", FEWER.replace("  replicas: 1\n", ""), says="serverside-applied"),
            run("get deploy web -o jsonpath='{.spec.replicas}'", says="5"),
            run("apply --server-side -f -", TYPO, fails=True, says=".datum: field not declared in schema"),
            run("apply -f -", FEWER.replace("name: web}", "name: both}", 1)),
            run("apply --server-side -f -", FEWER.replace("name: web}", "name: both}", 1), says="serverside-applied"),
            run("get deploy both -o yaml --show-managed-fields", never_says="kubectl-client-side-apply"),
        ),
    ),
)
