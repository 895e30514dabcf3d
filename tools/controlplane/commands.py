"""The command line of every program: pure, from where things are to what to start."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tools.controlplane.component import Program
from tools.controlplane.ports import LOOPBACK

STAGES = Path(__file__).with_name("stages.yaml")

# Both need a cloud or a network plan that is not there.
UNWANTED_CONTROLLERS = ("-nodeipam", "-cloud-node-lifecycle", "-service", "-route")
# Off unless asked for; kubeadm clusters run them, and joining by token relies on them.
WANTED_CONTROLLERS = ("*", "bootstrapsigner", "tokencleaner")

FAKE_NODE_IP = "192.0.2.1"  # reserved for documentation: nothing answers there
FAKE_PODS = "10.244.0.1/16"  # apart from the service range

Extra = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the files of one control plane are, and its one port."""

    directory: Path
    port: int
    programs: Mapping[str, Path]  # by program name
    extra: Extra = field(default_factory=dict)  # by program name: arguments added at the end

    def file(self, name: str) -> Path:
        return self.directory / name

    @property
    def url(self) -> str:
        return f"https://{LOOPBACK}:{self.port}"

    @property
    def etcd_url(self) -> str:
        return f"unix://{self.file('etcd.sock')}"

    def program(self, name: str, *arguments: str) -> Program:
        return Program(name, (str(self.programs[name]), *arguments, *self.extra.get(name, ())))


def etcd(layout: Layout) -> Program:
    """On sockets in our own directory: no port to be taken, and no other process can reach it."""
    peers = f"unix://{layout.file('peer.sock')}"
    return layout.program(
        "etcd",
        "--name=tgp",
        f"--data-dir={layout.file('etcd')}",
        "--unsafe-no-fsync",  # the data is thrown away: there is nothing to be durable about
        f"--listen-client-urls={layout.etcd_url}",
        f"--advertise-client-urls={layout.etcd_url}",
        f"--listen-peer-urls={peers}",
        f"--initial-advertise-peer-urls={peers}",
        f"--initial-cluster=tgp={peers}",
        "--log-level=warn",
    )


def kube_apiserver(layout: Layout, *, service_accounts: bool) -> Program:
    """`service_accounts` False: pods are let in though no controller makes a default service account."""
    refused = () if service_accounts else ("--disable-admission-plugins=ServiceAccount",)
    return layout.program(
        "kube-apiserver",
        f"--etcd-servers={layout.etcd_url}",
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",  # nothing reaches it by its service address, least of all on loopback
        f"--secure-port={layout.port}",
        f"--tls-cert-file={layout.file('apiserver.crt')}",
        f"--tls-private-key-file={layout.file('apiserver.key')}",
        f"--client-ca-file={layout.file('ca.crt')}",
        f"--token-auth-file={layout.file('tokens.csv')}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        *refused,
        "--enable-bootstrap-token-auth",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={layout.file('sa.key')}",
        f"--service-account-signing-key-file={layout.file('sa.key')}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--allow-privileged=true",  # driver DaemonSets of real clusters are privileged
        f"--audit-policy-file={layout.file('audit.yaml')}",
        f"--audit-log-path={layout.file('audit.log')}",
        "--profiling=false",
    )


def kube_controller_manager(layout: Layout) -> Program:
    return layout.program(
        "kube-controller-manager",
        f"--kubeconfig={layout.file('kube-controller-manager.kubeconfig')}",
        f"--controllers={','.join((*WANTED_CONTROLLERS, *UNWANTED_CONTROLLERS))}",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.file('sa.key')}",
        f"--root-ca-file={layout.file('ca.crt')}",
        f"--cluster-signing-cert-file={layout.file('ca.crt')}",
        f"--cluster-signing-key-file={layout.file('ca.key')}",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
    )


def kube_scheduler(layout: Layout) -> Program:
    return layout.program(
        "kube-scheduler",
        f"--kubeconfig={layout.file('kube-scheduler.kubeconfig')}",
        "--leader-elect=false",
        "--secure-port=0",
        "--profiling=false",
    )


def kwok(layout: Layout) -> Program:
    """Plays the kubelet of every node that bears the annotation, and of no other."""
    return layout.program(
        "kwok",
        f"--kubeconfig={layout.file('kwok.kubeconfig')}",
        f"--config={STAGES}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        "--node-lease-duration-seconds=40",  # the kubelet's own default
        f"--node-ip={FAKE_NODE_IP}",
        f"--cidr={FAKE_PODS}",
        "--node-port=0",  # no server: these kubelets are not asked for logs
    )
