"""Which Go programs we build, at which version and how. Everything that decides what comes out of a build stands here.

Nothing can be downloaded ready-made: each program is compiled from its published Go module, as the one requirement of a
small generated module.
"""

import hashlib
from dataclasses import dataclass

KUBERNETES = "1.36.3"
OLDEST_KUBERNETES = "1.28.15"  # the oldest API server our kinds are tried on
ETCD = "3.7.3"
KWOK = "0.8.0"

RECIPE = 1  # counts up when the way of building changes, so that older results are not found again
STRIPPED = ("-s", "-w")  # no symbol tables: a third of the size, and nobody debugs these here
KUBERNETES_MINUTES = {  # built in this order, each with what the ones before it left in Go's cache
    "kube-apiserver": 6,
    "kubectl": 0.5,
    "kube-controller-manager": 1,
    "kube-scheduler": 0.5,
}
VERSION_STAMP = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Tool:
    """One program: where it comes from, how to ask it who it is, and how a person can supply their own."""

    name: str  # its file name
    version: str  # without the v
    module: str
    package: str
    variable: str  # the environment variable whose path wins over anything we build
    minutes: float  # with empty caches on two cores, as measured; only for telling people how long
    siblings: str = ""  # the version of the k8s.io modules that the main one asks for as v0.0.0; empty: there are none
    stamps: tuple[str, ...] = ()  # linker values `import/path.name=value`
    asks: tuple[str, ...] = ("--version",)  # arguments that make it print its version
    go: str = "1.26.0"  # the least Go that compiles it: the `go` line of its go.mod

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def key(self) -> str:
        """Names the cached result: equal keys mean the same source built in the same way."""
        recipe = (RECIPE, self.module, self.version, self.package, self.siblings, self.ldflags)
        digest = hashlib.sha256(repr(recipe).encode()).hexdigest()
        return f"{self.name}-{self.version}-{digest[:8]}"

    @property
    def ldflags(self) -> str:
        return " ".join((*STRIPPED, *(f"-X {stamp}" for stamp in self.stamps)))


def kubernetes_program(name: str, version: str = KUBERNETES) -> Tool:
    """A program of Kubernetes' main module, which reports the release it was built from."""
    major, minor, patch = version.split(".")
    suffix = "" if version == KUBERNETES else f"_{major}_{minor}"
    return Tool(
        name=name,
        version=version,
        module="k8s.io/kubernetes",
        package=f"k8s.io/kubernetes/cmd/{name}",
        variable=f"TGP_{name.replace('-', '_').upper()}{suffix}",
        minutes=KUBERNETES_MINUTES[name],
        siblings=f"0.{minor}.{patch}",
        stamps=(
            f"{VERSION_STAMP}.gitVersion=v{version}",
            f"{VERSION_STAMP}.gitMajor={major}",
            f"{VERSION_STAMP}.gitMinor={minor}",
        ),
        asks=("version", "--client") if name == "kubectl" else ("--version",),
    )


ETCD_SERVER = Tool(
    "etcd", ETCD, "go.etcd.io/etcd/server/v3", "go.etcd.io/etcd/server/v3", variable="TGP_ETCD", minutes=0.5
)
KUBE_APISERVER = kubernetes_program("kube-apiserver")
KUBECTL = kubernetes_program("kubectl")
KUBE_CONTROLLER_MANAGER = kubernetes_program("kube-controller-manager")
KUBE_SCHEDULER = kubernetes_program("kube-scheduler")
KWOK_CONTROLLER = Tool("kwok", KWOK, "sigs.k8s.io/kwok", "sigs.k8s.io/kwok/cmd/kwok", variable="TGP_KWOK", minutes=2)
OLDEST_KUBE_APISERVER = kubernetes_program("kube-apiserver", OLDEST_KUBERNETES)

EVERYDAY = (ETCD_SERVER, KUBE_APISERVER, KUBECTL, KUBE_CONTROLLER_MANAGER, KUBE_SCHEDULER, KWOK_CONTROLLER)
