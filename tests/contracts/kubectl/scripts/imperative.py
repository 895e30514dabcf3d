"""What people type by hand, without a file."""

from tests.contracts.kubectl.script import Script, run

NO_ACCOUNTS = "the real server runs without the admission of service accounts, as nothing makes any"

IMPERATIVE = (
    Script(
        "by hand",
        (
            run(
                "run shell --image=example.org/shell:1 --restart=Never --env=A=1 --labels=app=shell -- sleep 1",
                says="created",
            ),
            run("get pod shell -o yaml", says="restartPolicy: Never", unlike=NO_ACCOUNTS),
            run("run peek --image=example.org/shell:1 --dry-run=server -o name", says="pod/peek"),
            run("create deployment web --image=example.org/web:1 --replicas=2 --port=80", says="created"),
            run("get deploy web -o yaml"),
            run("expose deployment web --port=80 --target-port=8080", says="service/web exposed"),
            run("get svc web -o yaml", says="targetPort: 8080"),
            run("set env deployment/web MODE=fast", says="env updated"),
            run("set env deployment/web --list", says="MODE=fast"),
            run("set resources deployment/web --limits=cpu=200m,memory=512Mi", says="resource requirements updated"),
            run("set serviceaccount deployment/web robot", says="serviceaccount updated"),
            run("set selector service web app=other", says="selector updated"),
            run("autoscale deployment web --min=1 --max=3 --cpu=50%", says="autoscaled"),
            run("create poddisruptionbudget web --selector=app=web --min-available=1", says="created"),
            run("create quota small --hard=pods=5,requests.cpu=2", says="created"),
            run("create ingress front --rule=example.org/*=web:80", says="created"),
            run("create priorityclass kubectl-low --value=5 --description=low", says="created"),
            run("create role viewer --verb=get,list --resource=pods,configmaps", says="created"),
            run(
                "create rolebinding viewers --role=viewer --serviceaccount=kubectl-by-hand:robot --user=dora",
                says="created",
            ),
            run("auth can-i list pods --as=dora", says="yes"),
            run(
                "auth can-i --list --as=dora", says=("pods", "[get list]"), unlike="other cluster roles grant more here"
            ),
            run("get pdb,quota,ing,role,rolebinding -o wide"),
            run("get role viewer -o yaml", says="- configmaps"),
            run("get all", says=("pod/shell", "service/web", "deployment.apps/web")),
            run("get deploy,svc -o name", says=("deployment.apps/web", "service/web")),
            run("get pod/shell deploy/web", says=("pod/shell", "deployment.apps/web")),
            run(
                "get pods --watch-only --request-timeout=1s",
                unlike="kubectl words the end of its own patience in several ways",
            ),
            run("label pods --all tier=x", says="labeled"),
            run("delete pod,svc,deploy --all --wait=false", says=('pod "shell" deleted', 'service "web" deleted')),
            run("delete priorityclass kubectl-low"),
            run("create secret tls pair --cert=/nowhere --key=/nowhere", fails=True),
            run("get pods shell web", fails=True, says='pods "web" not found'),
        ),
    ),
)
