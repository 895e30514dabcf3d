"""Configs that must not reach a machine: what is wrong with each, and whether Talos itself would notice."""

from dataclasses import dataclass
from typing import Any

from tgp.core.joining.talos.document_view import NodeExpectations
from tools.judge.paper import Change, add, document, drop, pem, private_key, put, several, text

NEVER = 99  # Talos does not notice in any release


@dataclass(frozen=True, slots=True)
class Broken:
    name: str
    change: Change
    noticed: int = 10  # the first minor release whose own validator refuses it
    where: str = ""  # the path that our finding must name
    since: int = 10  # the first minor in which it can be said at all
    until: int = 14
    expects: NodeExpectations | None = None  # besides what its plan says


def _peer(**said: Any) -> dict[str, Any]:
    return {"publicKey": "A" * 43 + "=", "endpoint": "192.0.2.1:51820", "allowedIPs": ["10.8.0.0/24"], **said}


def _tunnel(**said: Any) -> dict[str, Any]:
    return {"interface": "wg0", "addresses": ["10.8.0.2/24"], "wireguard": {"privateKey": "A" * 43 + "=", **said}}


def _user_volume(match: str, **sizes: str) -> dict[str, Any]:
    provisioning = {"diskSelector": {"match": match}, **(sizes or {"minSize": "10GB"})}
    return document("UserVolumeConfig", name="a", provisioning=provisioning)


def _encrypted(*keys: dict[str, Any]) -> dict[str, Any]:
    return {**_user_volume("true"), "encryption": {"provider": "luks2", "keys": list(keys)}}


_INTERFACE = "machine.network.interfaces[0]"
_KUBESPAN = "machine.network.kubespan"
_FILE = "machine.files[0]"
_TAILSCALE = "ExtensionServiceConfig:"

BROKEN: tuple[Broken, ...] = (
    # what the loader refuses
    Broken("not YAML", text(lambda good: good + "\n  : [")),
    Broken("empty", text(lambda _: "")),
    Broken("a list", text(lambda _: "- a\n- b\n")),
    Broken("a string", text(lambda _: "worker\n")),
    Broken("key twice", text(lambda good: good.replace("machine:\n", "machine:\n  type: worker\n", 1))),
    Broken("unknown key", put("machine.systemd", {"services": []}), where="machine.systemd"),
    Broken("unknown nested key", put("machine.kubelet.nodeIP.subnets", []), where="machine.kubelet.nodeIP.subnets"),
    Broken("unknown key at the top", put("machines", {}), where="machines"),
    Broken("unknown key of a document", put(f"{_TAILSCALE}env", ["A=b"]), where="ExtensionServiceConfig/tailscale.env"),
    Broken("misspelled key", put("machine.nodelabels", {"a": "b"}), where="machine.nodelabels"),
    Broken("unknown kind", add(document("TailscaleConfig", name="x")), where="TailscaleConfig/x.kind"),
    Broken("kind in other letter case", add(document("KubespanEndpointsConfig")), where="KubespanEndpointsConfig.kind"),
    Broken("no kind", add({"apiVersion": "v1alpha1", "name": "x"})),
    Broken("no apiVersion", add({"kind": "SideroLinkConfig"}), where="SideroLinkConfig.apiVersion"),
    Broken(
        "another apiVersion", add({"apiVersion": "v1", "kind": "SideroLinkConfig"}), where="SideroLinkConfig.apiVersion"
    ),
    Broken("document twice", lambda paper: [*paper, paper[-1]]),
    Broken("v1alpha1 config twice", lambda paper: [*paper, paper[0]]),
    Broken("list for a mapping", put("machine.kubelet", []), where="machine.kubelet"),
    Broken("mapping for a list", put("machine.kernel.modules", {}), where="machine.kernel.modules"),
    Broken("mapping for a text", put("machine.token", {"a": "b"}), where="machine.token"),
    Broken("text for a mapping", put("machine.features", "all"), where="machine.features"),
    Broken("word for a boolean", put("cluster.discovery.enabled", "perhaps"), where="cluster.discovery.enabled"),
    Broken(
        "word for a number", put("machine.features.kubePrism.port", "high"), where="machine.features.kubePrism.port"
    ),
    Broken("word for a duration", put("machine.time.bootTimeout", "soon"), where="machine.time.bootTimeout"),
    Broken("not base64", put("machine.ca.crt", "-----BEGIN CERTIFICATE-----"), where="machine.ca.crt"),
    Broken(
        "kind of a later release",
        add(document("HostnameConfig", hostname="inert")),
        where="HostnameConfig.kind",
        until=11,
    ),
    Broken(
        "KubeSpan kind too early", add(document("KubeSpanConfig", enabled=True)), where="KubeSpanConfig.kind", until=12
    ),
    Broken(
        "two links of one name", add(document("LinkConfig", name="a"), document("DummyLinkConfig", name="a")), since=12
    ),
    Broken("arguments as lists", put("machine.kubelet.extraArgs", {"v": ["1", "2"]}), until=12),
    Broken("arguments as lists in the alpha", put("machine.kubelet.extraArgs", {"v": ["1", "2"]}), since=14),
    # what the validator refuses
    Broken("no machine section", drop("machine"), where="machine"),
    Broken("no cluster section", drop("cluster"), where="cluster"),
    Broken("no type", drop("machine.type"), where="machine.type"),
    Broken("type join", put("machine.type", "join"), where="machine.type"),
    Broken("unknown type", put("machine.type", "gpu"), where="machine.type"),
    Broken("control plane", put("machine.type", "controlplane"), where="machine.type"),
    Broken("persist false", put("persist", False), where="persist"),
    Broken("no Talos CA", drop("machine.ca"), where="machine.ca.crt"),
    Broken("key of the Talos CA", put("machine.ca.key", private_key()), where="machine.ca.key"),
    Broken("key of the Kubernetes CA", put("cluster.ca.key", private_key()), where="cluster.ca.key"),
    Broken("no endpoint", drop("cluster.controlPlane"), where="cluster.controlPlane.endpoint"),
    Broken(
        "endpoint without host",
        put("cluster.controlPlane.endpoint", "https://:6443"),
        where="cluster.controlPlane.endpoint",
    ),
    Broken(
        "endpoint's port too high",
        put("cluster.controlPlane.endpoint", "https://h:65536"),
        where="cluster.controlPlane.endpoint",
    ),
    Broken(
        "endpoint's port not a number",
        put("cluster.controlPlane.endpoint", "https://h:api"),
        where="cluster.controlPlane.endpoint",
    ),
    Broken(
        "endpoint without scheme",
        put("cluster.controlPlane.endpoint", "192.0.2.1:6443"),
        where="cluster.controlPlane.endpoint",
    ),
    Broken(
        "IPv6 endpoint bare",
        put("cluster.controlPlane.endpoint", "https://fd00::1:6443"),
        where="cluster.controlPlane.endpoint",
    ),
    Broken("DNS domain", put("cluster.network.dnsDomain", "clüster local"), where="cluster.network.dnsDomain"),
    Broken("etcd on a worker", put("cluster.etcd", {"subnet": "10.0.0.0/8"}), where="cluster.etcd"),
    Broken("discovery without id", drop("cluster.id"), where="cluster.id"),
    Broken("discovery without secret", drop("cluster.secret"), where="cluster.secret"),
    Broken(
        "discovery endpoint with a path",
        put("cluster.discovery.registries", {"service": {"endpoint": "https://d.example.org/path"}}),
        where="cluster.discovery.registries.service.endpoint",
    ),
    Broken(
        "cloud provider's manifests while off", put("cluster.externalCloudProvider", {"manifests": ["https://a/b"]})
    ),
    Broken("label key", put("machine.nodeLabels", {"bad key": "x"}), where='machine.nodeLabels["bad key"]'),
    Broken("label value", put("machine.nodeLabels", {"a": "x" * 64}), where="machine.nodeLabels.a"),
    Broken("label value with a space", put("machine.nodeLabels", {"a": "x y"}), where="machine.nodeLabels.a"),
    Broken("annotation key", put("machine.nodeAnnotations", {"a/b/c": "x"})),
    Broken("Talos's own annotation", put("machine.nodeAnnotations", {"talos.dev/owned-labels": "[]"})),
    Broken(
        "annotations too large", put("machine.nodeAnnotations", {"a": "x" * 300_000}), where="machine.nodeAnnotations"
    ),
    Broken("taint's effect", put("machine.nodeTaints", {"a": "b:Never"}), where="machine.nodeTaints.a"),
    Broken(
        "validSubnets",
        put("machine.kubelet.nodeIP.validSubnets", ["100.64/10"]),
        where="machine.kubelet.nodeIP.validSubnets[0]",
    ),
    Broken(
        "kubelet's own setting", put("machine.kubelet.extraConfig.port", 1), where="machine.kubelet.extraConfig.port"
    ),
    Broken(
        "extensions in install",
        put("machine.install.extensions", [{"image": "ghcr.io/siderolabs/tailscale:1"}]),
        where="machine.install.extensions",
    ),
    Broken(
        "Talos API for pods",
        put("machine.features.kubernetesTalosAPIAccess", {"enabled": True, "allowedRoles": ["os:reader"]}),
    ),
    Broken(
        "kube-dns forwarded, host DNS off",
        put("machine.features.hostDNS", {"enabled": False, "forwardKubeDNSToHost": True}),
        since=13,
    ),
    Broken("address sort algorithm", put("machine.features.nodeAddressSortAlgorithm", "v9")),
    Broken(
        "KubeSpan without discovery",
        several(put(_KUBESPAN, {"enabled": True}), put("cluster.discovery.enabled", False)),
    ),
    Broken("KubeSpan's MTU", put(_KUBESPAN, {"enabled": True, "mtu": 1000}), where=f"{_KUBESPAN}.mtu"),
    Broken("KubeSpan's filter", put(_KUBESPAN, {"enabled": True, "filters": {"endpoints": ["!lan"]}})),
    Broken(
        "KubeSpan's excluded networks",
        put(_KUBESPAN, {"enabled": True, "filters": {"excludeAdvertisedNetworks": ["lan"]}}),
        since=12,
    ),
    Broken(
        "KubeSpan in both places",
        several(put(_KUBESPAN, {"enabled": True}), add(document("KubeSpanConfig", enabled=True))),
        since=13,
    ),
    Broken(
        "KubeSpanConfig's MTU",
        add(document("KubeSpanConfig", enabled=True, mtu=100)),
        since=13,
        where="KubeSpanConfig.mtu",
    ),
    Broken(
        "shared address", put(_INTERFACE, {"interface": "eth0", "vip": {"ip": "10.0.0.9"}}), where=f"{_INTERFACE}.vip"
    ),
    Broken("interface without a name", put(_INTERFACE, {"addresses": ["10.0.0.9/24"]}), where=_INTERFACE),
    Broken("interface named twice", put(_INTERFACE, {"interface": "eth0", "deviceSelector": {"driver": "virtio"}})),
    Broken(
        "interface's old cidr",
        put(_INTERFACE, {"interface": "eth0", "cidr": "10.0.0.9/24"}),
        where=f"{_INTERFACE}.cidr",
    ),
    Broken("interface's address", put(_INTERFACE, {"interface": "eth0", "addresses": ["10.0.0.300/24"]})),
    Broken("route to nowhere", put(_INTERFACE, {"interface": "eth0", "routes": [{"metric": 5}]})),
    Broken("route's gateway", put(_INTERFACE, {"interface": "eth0", "routes": [{"gateway": "gw"}]})),
    Broken(
        "WireGuard private key",
        put(_INTERFACE, _tunnel(privateKey="c2hvcnQ=")),
        where=f"{_INTERFACE}.wireguard.privateKey",
    ),
    Broken("WireGuard public key", put(_INTERFACE, _tunnel(peers=[_peer(publicKey="?")]))),
    Broken("WireGuard endpoint", put(_INTERFACE, _tunnel(peers=[_peer(endpoint="192.0.2.1")]))),
    Broken("WireGuard allowed IPs", put(_INTERFACE, _tunnel(peers=[_peer(allowedIPs=["10.8.0.1"])]))),
    Broken(
        "WireguardConfig's endpoint by name",
        add(
            document(
                "WireguardConfig", name="wg0", privateKey="A" * 43 + "=", peers=[_peer(endpoint="vpn.example.org:1")]
            )
        ),
        since=12,
    ),
    Broken("WireguardConfig without key", add(document("WireguardConfig", name="wg0", peers=[_peer()])), since=12),
    Broken("WireguardConfig without name", add(document("WireguardConfig", privateKey="A" * 43 + "=")), since=12),
    Broken("host name twice", put("machine.network.hostname", "inert"), since=12),
    Broken("host name too long", put("HostnameConfig:hostname", "a" * 64), since=12, where="HostnameConfig.hostname"),
    Broken("host name and automatic", put("HostnameConfig:auto", "stable"), since=12, where="HostnameConfig.auto"),
    Broken("HostnameConfig says nothing", drop("HostnameConfig:hostname"), since=12, where="HostnameConfig"),
    Broken("extension without name", drop(f"{_TAILSCALE}name"), where="ExtensionServiceConfig.name"),
    Broken("extension without settings", drop(f"{_TAILSCALE}environment")),
    Broken("extension's file without content", put(f"{_TAILSCALE}configFiles", [{"mountPath": "/a"}])),
    Broken(
        "mirror's scheme", add(document("RegistryMirrorConfig", name="*", endpoints=[{"url": "ftp://a"}])), since=12
    ),
    Broken("SideroLink's URL", add(document("SideroLinkConfig", apiUrl="http://a")), where="SideroLinkConfig.apiUrl"),
    Broken("kernel log's URL", add(document("KmsgLogConfig", name="a", url="tcp://a"))),
    Broken("event sink", add(document("EventSinkConfig", endpoint="nowhere"))),
    Broken("rule without ports", add(document("NetworkRuleConfig", name="a", portSelector={"protocol": "tcp"}))),
    Broken("watchdog without device", add(document("WatchdogTimerConfig", timeout="1m"))),
    Broken("volume of another name", add(document("VolumeConfig", name="DATA"))),
    Broken("VLAN's number", put(_INTERFACE, {"interface": "eth0", "vlans": [{"vlanId": 70000}]})),
    Broken(
        "bond's mode",
        put(_INTERFACE, {"interface": "bond0", "bond": {"mode": "fast"}}),
        where=f"{_INTERFACE}.bond.mode",
    ),
    Broken(
        "bond's delay",
        put(_INTERFACE, {"interface": "bond0", "bond": {"mode": "active-backup", "miimon": 100, "updelay": 150}}),
        where=f"{_INTERFACE}.bond.updelay",
    ),
    Broken(
        "member of a bond with an address",
        put(
            "machine.network.interfaces",
            [{"interface": "bond0", "bond": {"interfaces": ["eth1"]}}, {"interface": "eth1", "dhcp": True}],
        ),
        where="machine.network.interfaces[1]",
    ),
    Broken("volume's selector of another type", add(_user_volume("disk.size > 10"))),
    Broken("volume's selector of an unknown field", add(_user_volume("disk.sise > 10u"))),
    Broken("volume's selector not closed", add(_user_volume("(disk.rotational"))),
    Broken("volume's selector that selects nothing", add(_user_volume("disk.size"))),
    Broken("volume smaller than its minimum", add(_user_volume("true", minSize="10GB", maxSize="5GB"))),
    Broken("volume's key twice", add(_encrypted({"slot": 0, "nodeID": {}}, {"slot": 0, "nodeID": {}}))),
    Broken("volume's key of no kind", add(_encrypted({"slot": 0}))),
    Broken("ports that overlap", add(document("NetworkRuleConfig", name="a", portSelector={"ports": ["80-90", 85]}))),
    Broken("watchdog timeout short", add(document("WatchdogTimerConfig", device="/dev/watchdog0", timeout="500ms"))),
    Broken("swap's share", add(document("ZswapConfig", maxPoolPercent=101)), since=11),
    Broken("VLANConfig's number", add(document("VLANConfig", name="a", vlanID=4095, parent="eth0")), since=12),
    Broken("BondConfig's mode", add(document("BondConfig", name="a", links=["eth0"], bondMode="fast")), since=12),
    Broken("BondConfig without links", add(document("BondConfig", name="a", bondMode="802.3ad")), since=12),
    Broken(
        "DHCP by an identifier not given", add(document("DHCPv4Config", name="a", clientIdentifier="duid")), since=12
    ),
    Broken(
        "link alias's selector",
        add(document("LinkAliasConfig", name="a", selector={"match": "mac(link.driver) == 'a'"})),
        since=12,
    ),
    Broken("OOM trigger", add(document("OOMConfig", triggerExpression="memory_full_avg10 > 12")), since=12),
    Broken("OOM ranking", add(document("OOMConfig", cgroupRankingExpression="class == Burstable")), since=12),
    Broken("routing rule's priority", add(document("RoutingRuleConfig", name="32766", table="100")), since=13),
    Broken("blackhole of no network", add(document("BlackholeRouteConfig", name="10.0.0.1")), since=13),
    Broken("VRF's table", add(document("VRFConfig", name="a", table="main")), since=13),
    Broken("probe of nothing", add(document("TCPProbeConfig", name="a")), since=13),
    Broken("image rule that does nothing", add(document("ImageVerificationConfig", rules=[{"image": "*"}])), since=13),
    Broken(
        "logical volume's mirrors",
        add(
            document(
                "LVMLogicalVolumeConfig",
                name="a",
                type="linear",
                mirrors=1,
                provisioning={"volumeGroup": "a", "maxSize": "1GB"},
            )
        ),
        since=14,
    ),
    Broken("log destination", put("machine.logging.destinations", [{"endpoint": "https://a", "format": "json_lines"}])),
    Broken("log format", put("machine.logging.destinations", [{"endpoint": "tcp://a:1", "format": "text"}])),
    Broken("encryption without keys", put("machine.systemDiskEncryption", {"state": {"provider": "luks2"}})),
    Broken(
        "kubelet version that Talos does not support",
        put("machine.kubelet.image", "ghcr.io/siderolabs/kubelet:v1.20.1"),
        noticed=11,
        where="machine.kubelet.image",
    ),
    # what would show only after a machine was paid for
    Broken("only documents", lambda paper: paper[1:], noticed=NEVER),
    Broken("no bootstrap token", drop("cluster.token"), NEVER, "cluster.token"),
    Broken("bootstrap token's form", put("cluster.token", "ABCDEF.0123456789abcdef"), NEVER, "cluster.token"),
    Broken("bootstrap token too short", put("cluster.token", "abcdef.012345"), NEVER, "cluster.token"),
    Broken("no machine token", drop("machine.token"), NEVER, "machine.token"),
    Broken("machine token's form", put("machine.token", "a token"), NEVER, "machine.token"),
    Broken("no Kubernetes CA", drop("cluster.ca"), NEVER, "cluster.ca.crt"),
    Broken("CA that is not a certificate", put("cluster.ca.crt", "aGVsbG8="), NEVER, "cluster.ca.crt"),
    Broken("certificate that is not a CA", put("cluster.ca.crt", pem(authority=False)), NEVER, "cluster.ca.crt"),
    Broken("private key for a CA", put("cluster.ca.crt", private_key()), NEVER, "cluster.ca.crt"),
    Broken(
        "one CA twice", several(put("cluster.ca.crt", pem()), put("machine.ca.crt", pem())), NEVER, "cluster.ca.crt"
    ),
    Broken(
        "plain http endpoint",
        put("cluster.controlPlane.endpoint", "http://192.0.2.1:6443"),
        NEVER,
        "cluster.controlPlane.endpoint",
    ),
    Broken("pod subnet", put("cluster.network.podSubnets", ["everything"]), NEVER, "cluster.network.podSubnets[0]"),
    Broken("discovery secret's form", put("cluster.secret", "not base64!"), NEVER, "cluster.secret"),
    Broken("file under /etc", put(_FILE, {"path": "/etc/x", "op": "create", "content": "a"}), NEVER, f"{_FILE}.path"),
    Broken(
        "file outside /var by `..`",
        put(_FILE, {"path": "/var/../etc/x", "op": "create", "content": "a"}),
        NEVER,
        f"{_FILE}.path",
    ),
    Broken(
        "file beside /var", put(_FILE, {"path": "/variable/x", "op": "create", "content": "a"}), NEVER, f"{_FILE}.path"
    ),
    Broken(
        "CRI part of another name",
        put(_FILE, {"path": "/etc/cri/conf.d/20-nvidia.part", "op": "create", "content": "a"}),
        NEVER,
        f"{_FILE}.path",
    ),
    Broken("file without op", put(_FILE, {"path": "/var/x", "content": "a"}), NEVER, f"{_FILE}.op"),
    Broken("relative path", put(_FILE, {"path": "var/x", "op": "create", "content": "a"}), NEVER, f"{_FILE}.path"),
    Broken("taints too late", put("machine.nodeTaints", {"gpu": "NoSchedule"}), NEVER, "machine.nodeTaints", until=13),
    Broken("taint without effect", put("machine.kubelet.extraConfig.registerWithTaints", [{"key": "gpu"}]), NEVER),
    Broken(
        "label reserved by Kubernetes",
        put("machine.nodeLabels", {"node-role.kubernetes.io/gpu": ""}),
        NEVER,
        'machine.nodeLabels["node-role.kubernetes.io/gpu"]',
    ),
    Broken("label a kubelet may not set", put("machine.nodeLabels", {"node-restriction.kubernetes.io/a": "b"}), NEVER),
    Broken(
        "kubelet without version",
        put("machine.kubelet.image", "example.org/kubelet"),
        noticed=11,
        where="machine.kubelet.image",
    ),
    Broken(
        "kubelet newer than the API server",
        put("machine.kubelet.image", "ghcr.io/siderolabs/kubelet:v1.33.1"),
        NEVER,
        "machine.kubelet.image",
        expects=NodeExpectations(api_server="v1.32.9"),
    ),
    Broken(
        "stock installer",
        put("machine.install.image", "ghcr.io/siderolabs/installer:v1.13.0"),
        NEVER,
        "machine.install.image",
    ),
    Broken(
        "installer of another schematic",
        lambda paper: paper,
        NEVER,
        "machine.install.image",
        expects=NodeExpectations(schematic="f" * 64),
    ),
    Broken("no NVIDIA modules", drop("machine.kernel"), NEVER, "machine.kernel.modules"),
    Broken("a module missing", put("machine.kernel.modules", [{"name": "nvidia"}]), NEVER, "machine.kernel.modules"),
    Broken(
        "kubelet does not wait for the mesh",
        drop("machine.kubelet.nodeIP"),
        NEVER,
        "machine.kubelet.nodeIP.validSubnets",
    ),
    Broken(
        "kubelet waits for the wrong network",
        put("machine.kubelet.nodeIP.validSubnets", ["10.0.0.0/8"]),
        NEVER,
        "machine.kubelet.nodeIP.validSubnets",
    ),
    Broken(
        "mesh excluded",
        put("machine.kubelet.nodeIP.validSubnets", ["!100.64.0.0/10"]),
        NEVER,
        "machine.kubelet.nodeIP.validSubnets",
    ),
    Broken(
        "no Tailscale document",
        lambda paper: [each for each in paper if each.get("name") != "tailscale"],
        NEVER,
        "ExtensionServiceConfig",
    ),
    Broken("no auth key", put(f"{_TAILSCALE}environment", ["TS_HOSTNAME=inert", "TS_AUTH_ONCE=true"]), NEVER),
    Broken(
        "single-use key used again",
        put(f"{_TAILSCALE}environment", ["TS_AUTHKEY=inert-key"]),
        NEVER,
        "ExtensionServiceConfig/tailscale.environment",
    ),
    Broken(
        "two ways to log in",
        put(f"{_TAILSCALE}environment", ["TS_AUTHKEY=a", "TS_CLIENT_ID=b", "TS_AUTH_ONCE=true"]),
        NEVER,
    ),
    Broken("environment without =", put(f"{_TAILSCALE}environment[0]", "TS_AUTHKEY"), NEVER),
    Broken("placeholder left", put("cluster.clusterName", "{{.ClusterName}}"), NEVER, "cluster.clusterName"),
    Broken("placeholder with spaces", put("machine.env", {"A": "{{ .NodeName }}"}), NEVER, "machine.env.A"),
    Broken("another node's name", text(lambda good: good.replace("hostname: inert", "hostname: another")), NEVER),
    Broken(
        "no provider id",
        drop("machine.kubelet.extraConfig.providerID"),
        NEVER,
        "machine.kubelet.extraConfig.providerID",
    ),
    Broken(
        "too large",
        put("machine.nodeAnnotations", {"a": "x" * 20_000}),
        NEVER,
        expects=NodeExpectations(user_data_bytes=16_384),
    ),
    Broken(
        "shared secrets on an untrusted host",
        lambda paper: paper,
        NEVER,
        "cluster.secret",
        expects=NodeExpectations(shared_secrets=False),
    ),
    Broken("API server's settings", put("cluster.apiServer", {"extraArgs": {"v": "4"}}), NEVER, "cluster.apiServer"),
    Broken(
        "service account key", put("cluster.serviceAccount", {"key": private_key()}), NEVER, "cluster.serviceAccount"
    ),
    Broken(
        "etcd encryption secret",
        put("cluster.secretboxEncryptionSecret", "A" * 43 + "="),
        NEVER,
        "cluster.secretboxEncryptionSecret",
    ),
    Broken(
        "inline manifests",
        put("cluster.inlineManifests", [{"name": "a", "contents": "b"}]),
        NEVER,
        "cluster.inlineManifests",
    ),
    Broken(
        "API server's document",
        add(document("KubeAPIServerConfig", image="registry.k8s.io/kube-apiserver:v1.36.0")),
        NEVER,
        "KubeAPIServerConfig.kind",
        since=14,
    ),
)
