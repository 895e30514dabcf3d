"""Discovery and documentation: what kubectl knows before it acts."""

from tests.contracts.kubectl.script import Script, run

OUR_WORDS = "the documentation of built-in kinds is in our own words"

EXPLAINING = (
    Script(
        "discovery",
        (
            run("api-resources --api-group=apps -o wide", says=("deployments", "deploy", "apps/v1")),
            run("api-resources --api-group=batch -o wide"),
            run("api-resources --api-group=policy -o wide"),
            run("api-resources --api-group=rbac.authorization.k8s.io -o wide"),
            run("api-resources --api-group=apiextensions.k8s.io -o wide", says="crd,crds"),
            run("api-resources --api-group=authorization.k8s.io -o wide"),
            run("api-resources", says=("configmaps", "cm"), unlike="the in-memory server serves fewer kinds"),
            run("api-versions", says=("apps/v1", "v1\n"), unlike="the in-memory server serves fewer groups"),
            run("get --raw /api/v1", says="APIResourceList", unlike="the in-memory server serves fewer kinds"),
            run("get --raw /apis/apps"),
            run("version -o json", says='"gitVersion": "v1.36.3"', unlike="two builds of two programs"),
            run("cluster-info", says="Kubernetes control plane"),
            run("get gadgets", fails=True, says="the server doesn't have a resource type"),
            run("get --raw /apis/nowhere/v1", fails=True),
            run("get --raw /healthz", says="ok"),
            run("get --raw /readyz", says="ok"),
            run("get --raw /livez", says="ok"),
        ),
    ),
    Script(
        "explain",
        (
            run("explain pod.spec.containers", says=("FIELDS:", "livenessProbe", "-required-"), unlike=OUR_WORDS),
            run("explain deployment.spec.strategy", says=("GROUP:      apps", "enum: Recreate"), unlike=OUR_WORDS),
            run("explain pod.spec.restartPolicy", says=("ENUM:", "OnFailure"), unlike=OUR_WORDS),
            run("explain cm.data", says="<map[string]string>", unlike=OUR_WORDS),
            run("explain pod.spec.nonsense", fails=True, says='field "nonsense" does not exist'),
            run("explain gadgets", fails=True, says="the server doesn't have a resource type"),
            run("explain deployment --recursive", says="matchExpressions", unlike=OUR_WORDS),
            run(
                "explain node.spec --output=plaintext-openapiv2",
                says=("RESOURCE: spec", "providerID"),
                unlike=OUR_WORDS,
            ),
        ),
    ),
)
