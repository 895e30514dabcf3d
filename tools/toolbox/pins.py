"""Which Go programs we build, at which version and how. Everything that decides what comes out of a build stands here.

Nothing can be downloaded ready-made: each program is compiled from its published Go module, as the one requirement of a
small generated module.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

KUBERNETES = "1.36.3"
OLDEST_KUBERNETES = "1.28.15"  # the oldest API server our kinds are tried on
ETCD = "3.7.3"
KWOK = "0.8.0"
HELM = "3.22.0"
NEWER_HELM = "4.3.1"
REGISTRY = "0.22.1"
HEADSCALE = "0.29.3"
TAILSCALE = "1.102.3"
TAILSCALE_CLIENT = "2.9.0"  # of its API
TALOS = ("1.13.9", "1.14.0-alpha.2", "1.12.5", "1.11.5", "1.10.6")  # one of each minor: the newest that is published
OTHER_TALOS = ("1.13.0", "1.12.0", "1.11.0", "1.10.4")  # of 1.14 nothing later than that alpha can be had as a module
TALOS_DISKS = ("2.0.16", "2.0.23")  # an early and a late one of those that read labels of FAT
WIREGUARD = "0.0.0-20260522210424-ecfc5a8d5446"  # it has no releases in the module proxy, only commits

RECIPE = 1  # counts up when the way of building changes, so that older results are not found again
STRIPPED = ("-s", "-w")  # no symbol tables: a third of the size, and these are not debugged here
KUBERNETES_MINUTES = {  # built in this order, each with what the ones before it left in Go's cache
    "kube-apiserver": 6,
    "kubectl": 0.5,
    "kube-controller-manager": 1,
    "kube-scheduler": 0.5,
}
ROOT = Path(__file__).parents[2]
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
    asks: tuple[str, ...] = ("--version",)  # arguments that make it print its version; empty: Go reads it from the file
    go: str = "1.26.0"  # the least Go that compiles it: the `go` line of its go.mod
    source: str = ""  # a folder of this repository with our own Go files on top of the module; the package is then "."
    replaces: tuple[str, ...] = ()  # `module => other version`, as the module's own go.mod has them

    @property
    def title(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def key(self) -> str:
        """Names the cached result: equal keys mean the same source built in the same way."""
        recipe: tuple[object, ...] = (RECIPE, self.module, self.version, self.package, self.siblings, self.ldflags)
        if self.source:
            recipe += (self.replaces, *(path.read_text() for path in self.own_files))
        digest = hashlib.sha256(repr(recipe).encode()).hexdigest()
        return f"{self.name}-{self.version}-{digest[:8]}"

    @property
    def own_files(self) -> tuple[Path, ...]:
        return tuple(sorted((ROOT / self.source).glob("*.go"))) if self.source else ()

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


def helm_client(version: str, variable: str, minutes: float, *stamps: str) -> Tool:
    module = f"helm.sh/helm/v{version.split('.', maxsplit=1)[0]}"
    return Tool(
        "helm",
        version,
        module,
        f"{module}/cmd/helm",
        variable=variable,
        minutes=minutes,
        stamps=(f"{module}/internal/version.version=v{version}", *stamps),
        asks=("version",),
    )


HELM_CLIENT = helm_client(
    HELM,
    "TGP_HELM",
    2,
    "helm.sh/helm/v3/pkg/chartutil.k8sVersionMajor=1",  # what it renders for where no cluster is asked
    f"helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={KUBERNETES.split('.')[1]}",
)
NEWER_HELM_CLIENT = helm_client(NEWER_HELM, "TGP_HELM_4", 3)
OCI_REGISTRY = Tool(
    "registry",
    REGISTRY,
    "github.com/google/go-containerregistry",
    "github.com/google/go-containerregistry/cmd/registry",
    variable="TGP_REGISTRY",
    minutes=0.3,
    asks=(),
    go="1.25.0",
)
HEADSCALE_SERVER = Tool(
    "headscale",
    HEADSCALE,
    "github.com/juanfont/headscale",
    "github.com/juanfont/headscale/cmd/headscale",
    variable="TGP_HEADSCALE",
    minutes=3,
    asks=(),  # it knows its version only from a checkout's tags
    go="1.26.5",
)


def tailscale_program(name: str, minutes: float) -> Tool:
    """A program of Tailscale's module. containerboot cannot be asked who it is: started at all, it begins to work."""
    return Tool(
        name=name,
        version=TAILSCALE,
        module="tailscale.com",
        package=f"tailscale.com/cmd/{name}",
        variable=f"TGP_{name.upper()}",
        minutes=minutes,
        asks=(),
        go="1.26.6",
    )


TAILSCALED = tailscale_program("tailscaled", 3)
TAILSCALE_CLI = tailscale_program("tailscale", 1)
CONTAINERBOOT = tailscale_program("containerboot", 1)
WIREGUARD_GO = Tool(
    "wireguard-go",
    WIREGUARD,
    "golang.zx2c4.com/wireguard",
    "golang.zx2c4.com/wireguard",
    variable="TGP_WIREGUARD_GO",
    minutes=0.2,
    asks=(),
    go="1.23.1",
)

TAILNET_WALK = Tool(
    "tailnet-walk",
    TAILSCALE_CLIENT,
    "tailscale.com/client/tailscale/v2",
    ".",
    variable="TGP_TAILNET_WALK",
    minutes=0.5,
    asks=(),
    go="1.24.0",
    source="tests/clients/tailscale/program",
)


def talos_disks(version: str) -> Tool:
    """The library by which Talos finds its volumes, at one of the versions that Talos has used."""
    return Tool(
        "talos-disks",
        version,
        "github.com/siderolabs/go-blockdevice/v2",
        ".",
        variable=f"TGP_TALOS_DISKS_{version.replace('.', '_')}",
        minutes=0.3,
        asks=(),
        go="1.24.0",
        source="tests/takeover/program",
    )


DISK_READERS = tuple(talos_disks(version) for version in TALOS_DISKS)

YAML_FORK = "gopkg.in/yaml.v3 => github.com/unix4ever/yaml v0.0.0-20220527175918-f17b0f05cf2c"
# Of 1.14 the module asks for v0.6.0-sidero, which is not published; only names of link speeds come from there.
ETHTOOL_FORK = "github.com/mdlayher/ethtool => github.com/siderolabs/ethtool v0.4.0-sidero"


def talos_judge(version: str) -> Tool:
    """Talos's own reader and validator of machine configs, of that release."""
    numbered = version.replace(".", "_").replace("-", "_").upper()
    return Tool(
        name="talos-judge",
        version=version,
        module="github.com/siderolabs/talos/pkg/machinery",
        package=".",
        variable=f"TGP_TALOS_JUDGE_{numbered}",
        minutes=1,
        source="tools/judge/program",
        replaces=(ETHTOOL_FORK,) if numbered >= "1_12" else (ETHTOOL_FORK, YAML_FORK),
        go="1.26.4",
    )


JUDGES = tuple(talos_judge(version) for version in TALOS)
OTHER_JUDGES = tuple(talos_judge(version) for version in OTHER_TALOS)

EVERYDAY = (
    ETCD_SERVER,
    KUBE_APISERVER,
    KUBECTL,
    KUBE_CONTROLLER_MANAGER,
    KUBE_SCHEDULER,
    KWOK_CONTROLLER,
    HELM_CLIENT,
    NEWER_HELM_CLIENT,
    OCI_REGISTRY,
)
MESH = (WIREGUARD_GO, TAILSCALED, TAILSCALE_CLI, CONTAINERBOOT, HEADSCALE_SERVER)
