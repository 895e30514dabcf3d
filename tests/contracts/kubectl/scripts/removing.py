"""`delete`: finalizers, waiting, selectors, cascades."""

from tests.contracts.kubectl.script import Meanwhile, Script, run

GUARDED = """
apiVersion: v1
kind: ConfigMap
metadata: {name: guarded, finalizers: [tgp.io/machine]}
"""
THREE = """
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: one, labels: {group: few}}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: two, labels: {group: few}}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: three}}
"""

CUT_SHORT = "kubectl may or may not complain that its watch was cut short by its own timeout"

REMOVING = (
    Script(
        "removed",
        (
            run("create -f -", GUARDED),
            run("delete cm guarded --timeout=1s", fails=True, says=("deleted", "timed out waiting"), unlike=CUT_SHORT),
            run("get cm guarded -o yaml", says=("deletionTimestamp", "tgp.io/machine")),
            run("""patch cm guarded -p '{"metadata":{"finalizers":["tgp.io/new"]}}'""", fails=True, says="Forbidden"),
            Meanwhile(
                run("wait cm/guarded --for=delete --timeout=20s", says="condition met"),
                (run("""patch cm guarded --type=merge -p '{"metadata":{"finalizers":null}}'"""),),
            ),
            run("get cm guarded", fails=True, says="NotFound"),
            run("delete cm guarded", fails=True, says="not found"),
            run("delete cm guarded --ignore-not-found"),
            run("create -f -", THREE, says=("configmap/one created", "configmap/three created")),
            run(
                "delete cm -l group=few",
                says=('configmap "one" deleted', 'configmap "two" deleted'),
                never_says="three",
            ),
            run("delete cm --all --dry-run=server", says="(server dry run)"),
            run("get cm three -o name", says="configmap/three"),
            run("delete --raw /api/v1/namespaces/kubectl-removed/configmaps/three", says="Success"),
            run("create deployment web --image=example.org/web:1"),
            run("delete deployment web --cascade=orphan --wait=false", says="deleted"),
            run("get deploy web -o jsonpath='{.metadata.finalizers}'", says="orphan"),
            run("create deployment shop --image=example.org/web:1"),
            run("delete deployment shop --cascade=foreground --wait=false", says="deleted"),
            run("get deploy shop -o jsonpath='{.metadata.finalizers}'", says="foregroundDeletion"),
        ),
    ),
)
