"""Configs that must not be refused: workers as Talos's own generator makes them, and with what people add to them."""

from dataclasses import dataclass
from typing import Any

from tgp.core.model.talos import TalosVersion
from tools.judge.bench import ConfigVariant, Judge
from tools.judge.paper import Change, add, document, only, pem, put
from tools.judge.samples import SAMPLES

KUBERNETES_AHEAD = 23  # Talos 1.10 came with Kubernetes 1.33, and so on


@dataclass(frozen=True, slots=True)
class Addition:
    """To a config of ours."""

    name: str
    change: Change
    since: int = 10
    until: int = 14
    patch: int = 0  # the first of the minor it came with

    def sayable(self, version: TalosVersion) -> bool:
        """In that release."""
        early = version.minor == self.since and version.patch < self.patch
        return self.since <= version.minor <= self.until and not early


_KEY = "A" * 43 + "="
ADDITIONS: tuple[Addition, ...] = (
    Addition(
        "labels and annotations",
        put(
            "machine.nodeLabels",
            {"a.example/b": "", "node.kubernetes.io/instance-type": "a", "kubelet.kubernetes.io/x": "1"},
        ),
    ),
    Addition(
        "a file in /var",
        put("machine.files", [{"path": "/var/lib/a", "op": "create", "content": "a", "permissions": 0o600}]),
    ),
    Addition(
        "the CRI part",
        put("machine.files", [{"path": "/etc/cri/conf.d/20-customization.part", "op": "create", "content": "a"}]),
    ),
    Addition(
        "a static pod",
        put("machine.files", [{"path": "/etc/kubernetes/manifests/a.yaml", "op": "create", "content": "a"}]),
    ),
    Addition(
        "extra mounts",
        put(
            "machine.kubelet.extraMounts",
            [{"destination": "/var/mnt/x", "type": "bind", "source": "/var/mnt/x", "options": ["bind", "rw"]}],
        ),
    ),
    Addition("kubelet's arguments", put("machine.kubelet.extraArgs", {"rotate-server-certificates": "true"})),
    Addition(
        "kubelet's arguments as lists",
        put("machine.kubelet.extraArgs", {"feature-gates": ["A=true", "B=false"]}),
        since=13,
        until=13,  # 1.14's alpha stumbles over it, as 1.13 did in the beginning
        patch=6,
    ),
    Addition(
        "kubelet's configuration",
        put(
            "machine.kubelet.extraConfig",
            {"maxPods": 250, "providerID": "tgp://inert/inert", "systemReserved": {"cpu": "100m"}},
        ),
    ),
    Addition("cluster DNS", put("machine.kubelet.clusterDNS", ["10.96.0.10"])),
    Addition("booleans as words", put("machine.features.kubePrism.enabled", "yes")),
    Addition("sysctls as numbers", put("machine.sysctls", {"vm.nr_hugepages": 1024})),
    Addition("environment", put("machine.env", {"https_proxy": "http://10.0.0.1:3128"})),
    Addition("time servers", put("machine.time", {"servers": ["time.example.org"], "bootTimeout": "2m0s"})),
    Addition("name servers", put("machine.network.nameservers", ["1.1.1.1", "2606:4700:4700::1111"])),
    Addition(
        "host entries", put("machine.network.extraHostEntries", [{"ip": "10.0.0.1", "aliases": ["api.example.org"]}])
    ),
    Addition(
        "an interface",
        put(
            "machine.network.interfaces",
            [
                {
                    "interface": "eth0",
                    "dhcp": True,
                    "mtu": 1500,
                    "routes": [{"network": "0.0.0.0/0", "gateway": "10.0.0.1"}],
                }
            ],
        ),
    ),
    Addition(
        "an interface by selector",
        put(
            "machine.network.interfaces",
            [
                {
                    "deviceSelector": {"driver": "virtio*"},
                    "addresses": ["10.0.0.7/24", "fd00::7/64"],
                    "vlans": [{"vlanId": 5, "addresses": ["10.5.0.7/24"]}],
                }
            ],
        ),
    ),
    Addition(
        "a tunnel",
        put(
            "machine.network.interfaces",
            [
                {
                    "interface": "wg0",
                    "addresses": ["10.8.0.2/24"],
                    "wireguard": {
                        "privateKey": _KEY,
                        "listenPort": 51820,
                        "peers": [
                            {
                                "publicKey": _KEY,
                                "endpoint": "vpn.example.org:51820",
                                "persistentKeepaliveInterval": "25s",
                                "allowedIPs": ["10.8.0.0/24"],
                            }
                        ],
                    },
                }
            ],
        ),
    ),
    Addition(
        "registries",
        put(
            "machine.registries",
            {
                "mirrors": {"docker.io": {"endpoints": ["https://mirror.example.org"]}},
                "config": {"mirror.example.org": {"auth": {"username": "a", "password": "b"}}},
            },
        ),
    ),
    Addition(
        "discovery's own service",
        put("cluster.discovery.registries", {"service": {"endpoint": "https://discovery.example.org/"}}),
    ),
    Addition("discovery without service", put("cluster.discovery.registries", {"service": {"disabled": True}})),
    Addition("accepted CAs", put("machine.acceptedCAs", [{"crt": pem()}])),
    Addition("external cloud provider", put("cluster.externalCloudProvider", {"enabled": True})),
    Addition("endpoint by name", put("cluster.controlPlane.endpoint", "https://api.example.org")),
    Addition("endpoint by IPv6", put("cluster.controlPlane.endpoint", "https://[fd00::1]:6443")),
    Addition("excluded subnets", put("machine.kubelet.nodeIP.validSubnets", ["100.64.0.0/10", "!100.64.0.1/32"])),
    Addition(
        "logs",
        put(
            "machine.logging",
            {"destinations": [{"endpoint": "tcp://10.0.0.1:5044/", "format": "json_lines", "extraTags": {"a": "b"}}]},
        ),
    ),
    Addition(
        "udev rules", put("machine.udev", {"rules": ['SUBSYSTEM=="drm", KERNEL=="renderD*", GROUP="44", MODE="0660"']})
    ),
    Addition(
        "disk encryption",
        put("machine.systemDiskEncryption", {"ephemeral": {"provider": "luks2", "keys": [{"nodeID": {}, "slot": 0}]}}),
    ),
    Addition("a watchdog", add(document("WatchdogTimerConfig", device="/dev/watchdog0", timeout="2m0s"))),
    Addition("kernel logs", add(document("KmsgLogConfig", name="remote", url="udp://10.0.0.1:3478"))),
    Addition(
        "trusted roots", add(document("TrustedRootsConfig", name="own", certificates="-----BEGIN CERTIFICATE-----\n"))
    ),
    Addition(
        "ingress rules",
        add(
            document("NetworkDefaultActionConfig", ingress="block"),
            document(
                "NetworkRuleConfig",
                name="kubelet",
                portSelector={"ports": [10250, "30000-32767"], "protocol": "tcp"},
                ingress=[{"subnet": "10.0.0.0/8", "except": "10.1.0.0/16"}],
            ),
        ),
    ),
    Addition(
        "a volume's size",
        add(document("VolumeConfig", name="EPHEMERAL", provisioning={"maxSize": "50GB", "grow": False})),
    ),
    Addition(
        "a user's volume",
        add(
            document(
                "UserVolumeConfig",
                name="models",
                provisioning={
                    "diskSelector": {"match": 'disk.transport == "nvme"'},
                    "minSize": "100GB",
                    "maxSize": "2TiB",
                },
                filesystem={"type": "xfs"},
            )
        ),
    ),
    Addition(
        "another extension",
        add(
            document(
                "ExtensionServiceConfig",
                name="nut-client",
                configFiles=[{"content": "MONITOR a", "mountPath": "/usr/local/etc/nut/upsmon.conf"}],
            )
        ),
    ),
    Addition(
        "KubeSpan's endpoints", add(document("KubeSpanEndpointsConfig", extraAnnouncedEndpoints=["192.0.2.1:51820"]))
    ),
    Addition(
        "a mirror",
        add(
            document(
                "RegistryMirrorConfig",
                name="docker.io",
                endpoints=[{"url": "https://mirror.example.org", "overridePath": True}],
                skipFallback=True,
            )
        ),
        since=12,
    ),
    Addition(
        "a resolver",
        add(
            document("ResolverConfig", nameservers=[{"address": "1.1.1.1"}], searchDomains={"domains": ["example.org"]})
        ),
        since=12,
    ),
    Addition(
        "a static host", add(document("StaticHostConfig", name="10.0.0.1", hostnames=["api.example.org"])), since=12
    ),
    Addition(
        "a new tunnel",
        add(
            document(
                "WireguardConfig",
                name="wg0",
                privateKey=_KEY,
                listenPort=51820,
                peers=[
                    {
                        "publicKey": _KEY,
                        "presharedKey": _KEY,
                        "endpoint": "192.0.2.1:51820",
                        "persistentKeepaliveInterval": "25s",
                        "allowedIPs": ["10.8.0.0/24"],
                    }
                ],
                addresses=[{"address": "10.8.0.2/24"}],
            )
        ),
        since=12,
    ),
    Addition(
        "environment of its own kind",
        add(document("EnvironmentConfig", variables={"https_proxy": "http://10.0.0.1:3128"})),
        since=13,
    ),
    Addition("sysctls of their own kind", add(document("SysctlConfig", params={"vm.nr_hugepages": "1024"})), since=14),
)

ADDITIONS += tuple(
    Addition(f"a good {each['kind']}", only(each), since)
    for since, each in SAMPLES
    if each["kind"] != "ExtensionServiceConfig"  # the one of the mesh is there already
)


def generated(judge: Judge) -> dict[str, str]:
    """By name: as `talosctl gen config` would write them for that release, comments and all."""
    talos = f"v1.{judge.minor}"

    def query(name: str, older: int = 0, **options: Any) -> ConfigVariant:
        return ConfigVariant(name, talos, f"1.{judge.minor + KUBERNETES_AHEAD - older}.0", options)

    queries = [
        query("plain"),
        query("older Kubernetes", older=5),
        query("no discovery", discovery=False),
        query("installed", disk="/dev/nvme0n1", installer=f"factory.talos.dev/metal-installer/{'a' * 64}:{talos}.0"),
        query("kernel arguments", kernelArgs=["console=ttyS0", "talos.dashboard.disabled=1"]),
        query("mirrors", mirrors={"docker.io": "https://mirror.example.org", "ghcr.io": "http://10.0.0.1:5000"}),
        query("sysctls", sysctls={"net.core.somaxconn": "65535"}),
        query("own domain", dnsDomain="k8s.example.org", sans=["10.0.0.9", "gpu.example.org"], debug=True),
    ]
    if judge.minor < 14:  # there it would need the new kind, which the generator of older releases has no option for
        queries.append(query("KubeSpan", kubespan=True))
    return judge.workers(queries)
