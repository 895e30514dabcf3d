"""One good document of each kind that a worker may have: what mutants are made from, and what must not be refused."""

import base64
import copy
from typing import Any

from tools.judge.paper import document, pem, private_key

KEY = "A" * 43 + "="
_CERTIFICATE = base64.b64decode(pem()).decode()
_PRIVATE = base64.b64decode(private_key()).decode()
_ENCRYPTED = {"provider": "luks2", "keys": [{"slot": 0, "nodeID": {}}, {"slot": 1, "static": {"passphrase": "a"}}]}
_SIZES = {"minSize": "10GB", "maxSize": "20GiB"}
_DISK = {"diskSelector": {"match": "disk.transport == 'nvme' && !system_disk"}, **_SIZES}
_VOLUME = "volume.partition_label == 'MY' || disk.size > 100u * GiB"
_DUID = {"clientIdentifier": "duid", "duidRaw": "00:01:00:01:23:45"}
_LINK: dict[str, Any] = {
    "up": True,
    "mtu": 1400,
    "addresses": [{"address": "10.7.0.1/24", "routePriority": 5}],
    "routes": [{"destination": "10.9.0.0/16", "gateway": "10.7.0.2", "metric": 10, "table": "main"}],
}

# By kind, with the first release that has it. Names and words that matter are right; mutants make them wrong.
SAMPLES: tuple[tuple[int, dict[str, Any]], ...] = (
    (13, document("BlackholeRouteConfig", name="10.66.0.0/16", metric=100)),
    (
        12,
        document(
            "BondConfig",
            name="bond0",
            links=["eth1", "eth2"],
            bondMode="802.3ad",
            miimon=100,
            updelay=200,
            downdelay=200,
            xmitHashPolicy="layer3+4",
            lacpRate="fast",
            adSelect="bandwidth",
            **_LINK,
        ),
    ),
    (12, document("BridgeConfig", name="br0", links=["eth1"], stp={"enabled": True}, **_LINK)),
    (12, document("DHCPv4Config", name="eth0", routeMetric=100, **_DUID)),
    (12, document("DHCPv6Config", name="eth0", clientIdentifier="mac")),
    (12, document("DummyLinkConfig", name="dummy0", hardwareAddr="2e:3c:4d:5e:6f:70", **_LINK)),
    (13, document("EnvironmentConfig", variables={"https_proxy": "http://10.0.0.1:3128"})),
    (10, document("EthernetConfig", name="eth0", features={"tx-checksum-ipv4": False}, rings={"rx": 256})),
    (10, document("EventSinkConfig", endpoint="10.0.0.1:8080")),
    (11, document("ExistingVolumeConfig", name="old", discovery={"volumeSelector": {"match": _VOLUME}})),
    (10, document("ExtensionServiceConfig", name="nut", environment=["A=b"])),
    (
        13,
        document(
            "ExternalVolumeConfig",
            name="share",
            filesystemType="virtiofs",
            mount={"virtiofs": {"tag": "data"}, "readOnly": True},
        ),
    ),
    (14, document("FilesystemTrimConfig", interval="24h")),
    (
        14,
        document("HTTPProbeConfig", name="web", url="https://a.example/healthz", interval="10s", failureThreshold=3),
    ),
    (14, document("ImageCacheConfig", local={"enabled": True})),
    (
        13,
        document(
            "ImageVerificationConfig",
            rules=[
                {"image": "docker.io/library/*", "skip": True},
                {"image": "ghcr.io/*", "keyless": {"issuer": "https://a.example", "subject": "b"}},
            ],
        ),
    ),
    (10, document("KmsgLogConfig", name="remote", url="tcp://10.0.0.1:3478")),
    (10, document("KubeSpanEndpointsConfig", extraAnnouncedEndpoints=["192.0.2.1:51820"])),
    (
        14,
        document(
            "LVMLogicalVolumeConfig",
            name="lv_data",
            type="raid10",
            mirrors=1,
            stripes=2,
            provisioning={"volumeGroup": "vg", **_SIZES},
        ),
    ),
    (14, document("LVMVolumeGroupConfig", name="vg", provisioning={"volumeSelector": {"match": _VOLUME}})),
    (
        12,
        document("LinkAliasConfig", name="net0", selector={"match": "mac(link.permanent_addr) == '00:1a:2b:3c:4d:5e'"}),
    ),
    (12, document("LinkConfig", name="eth0", **_LINK)),
    (10, document("NetworkDefaultActionConfig", ingress="accept")),
    (
        10,
        document(
            "NetworkRuleConfig",
            name="rule",
            portSelector={"ports": [80, "8000-9000"], "protocol": "tcp"},
            ingress=[{"subnet": "10.0.0.0/8", "except": "10.1.0.0/16"}],
        ),
    ),
    (
        12,
        document(
            "OOMConfig",
            triggerExpression="memory_full_avg10 > 12.0 && time_since_trigger > duration('500ms')",
            cgroupRankingExpression="memory_max.hasValue() ? 0.0 : {Besteffort: 1.0, Burstable: 0.5}[class] * "
            "double(memory_current.orValue(0u))",
            sampleInterval="100ms",
        ),
    ),
    (11, document("RawVolumeConfig", name="raw", provisioning=_DISK, encryption=_ENCRYPTED)),
    (12, document("RegistryAuthConfig", name="ghcr.io", auth="YTpi")),
    (12, document("RegistryMirrorConfig", name="docker.io", endpoints=[{"url": "https://mirror.example.org"}])),
    (
        12,
        document(
            "RegistryTLSConfig",
            name="ghcr.io",
            ca=_CERTIFICATE,
            clientIdentity={"cert": _CERTIFICATE, "key": _PRIVATE},
        ),
    ),
    (12, document("ResolverConfig", nameservers=[{"address": "1.1.1.1"}], searchDomains={"domains": ["example.org"]})),
    (13, document("RoutingRuleConfig", name="1000", src="10.0.0.0/8", table="100", fwMark=16, fwMask=255)),
    (10, document("SideroLinkConfig", apiUrl="grpc://siderolink.example.org:8081")),
    (12, document("StaticHostConfig", name="10.0.0.1", hostnames=["api.example.org"])),
    (11, document("SwapVolumeConfig", name="swap", provisioning=_DISK, encryption=_ENCRYPTED)),
    (14, document("SysctlConfig", params={"vm.nr_hugepages": "1024"})),
    (14, document("SysfsConfig", params={"devices.system.cpu.cpu0.cpufreq.scaling_governor": "performance"})),
    (13, document("TCPProbeConfig", name="api", endpoint="10.0.0.1:6443", interval="10s", timeout="5s")),
    (12, document("TimeSyncConfig", ntp={"servers": ["time.example.org"]}, bootTimeout="2m0s")),
    (10, document("TrustedRootsConfig", name="own", certificates=_CERTIFICATE)),
    (
        10,
        document(
            "UserVolumeConfig", name="data", provisioning=_DISK, filesystem={"type": "xfs"}, encryption=_ENCRYPTED
        ),
    ),
    (12, document("VLANConfig", name="eth0.5", vlanID=5, parent="eth0", vlanMode="802.1q", **_LINK)),
    (13, document("VRFConfig", name="vrf-blue", links=["eth1"], table="123", **_LINK)),
    (10, document("VolumeConfig", name="EPHEMERAL", provisioning={**_DISK, "grow": True})),
    (10, document("WatchdogTimerConfig", device="/dev/watchdog0", timeout="2m0s")),
    (
        12,
        document(
            "WireguardConfig",
            name="wg0",
            privateKey=KEY,
            listenPort=51820,
            peers=[{"publicKey": KEY, "endpoint": "192.0.2.1:51820", "allowedIPs": ["10.8.0.0/24"]}],
            **_LINK,
        ),
    ),
    (11, document("ZswapConfig", maxPoolPercent=25, shrinkerEnabled=True)),
)


def samples(minor: int) -> dict[str, dict[str, Any]]:
    """By kind, those that this release has; a copy of its own for each who asks."""
    return {each["kind"]: copy.deepcopy(each) for since, each in SAMPLES if since <= minor}
