"""Values that keep a rule and values that break it, for each rule that stands on a text, a number or a map's keys.

`for_rule` is asked by the generator; tests make sure that every such rule has samples and that they keep their word.
"""

from dataclasses import dataclass
from typing import Any

from tgp.api import budget, cel, common, nodeclass, request, talos
from tgp.api.field import Rule

LABEL_KEYS = ("team", "example.com/team", "a.b-c.example/x_y.z", "node.kubernetes.io/instance-type")


@dataclass(frozen=True)
class Samples:
    good: tuple[Any, ...]
    bad: tuple[Any, ...]


_WG = "A" * 43 + "="

SAMPLES: dict[str, Samples] = {
    cel.PRICE.cel: Samples(
        ("2.0", "0", "0.35", "999999999.999999", "00.5"), ("", "-1", "$2", "1e3", "2.", ".5", "1.2345678", "2.0\n", "٢")
    ),
    cel.PRICE_ABOVE_ZERO.cel: Samples(("2.0", "0.000001", "10"), ("0", "0.0", "000")),
    cel.DURATION.cel: Samples(
        ("10m", "1h30m", "0s", "1.5h", "100ms", "30m1h", "7µs", "3ns"),
        ("", "10", "Never", "-5m", "1d", "10 m", "h", "10m ", "1234567h", "10m\n"),
    ),
    cel.DURATION_OR_NEVER.cel: Samples(("10m", "Never", "0s"), ("never", "", "NEVER", "10 minutes", "Never\n")),
    cel.SPAN_ABOVE_ZERO.cel: Samples(("10m", "Never", "0.5s", "1ns"), ("0s", "0h0m", "0.0s")),
    cel.QUANTITY.cel: Samples(
        (1, 100, "100", "0.5", "250.75", "1Gi", "500m", "1e3", "1E3", "2E", ".5", "5."),
        ("", "abc", "1GiB", "-1", "+1", "1 Gi", "1e100", "1K"),
    ),
    cel.QUANTITY_ABOVE_ZERO.cel: Samples((1, "100", "0.5", "1n", ".1"), (0, -1, "0", "0.0", "0e5", "0Gi", ".0")),
    cel.NODES.cel: Samples((0, 7, "3", "10%", "0%", "100%"), ("150%", "", "-1", "101%", "10 %", "all", "10%\n")),
    cel.PERCENT.cel: Samples(("5%", "0%", "100%"), ("150%", "", "5", "-1%", "5%\n")),
    cel.AT_LEAST_MILLI.cel: Samples(
        (1, "100", "0.5", "0.001", ".0019", "1m", "0.5k", "1e3", "1e0", "1.5e-3", "1000u", "2500000n", "1Gi"),
        (0, -1, "0", "0.0", "0e5", "0Gi", "1n", "999u", "999999n", "0.0009", "0.9m", "1e-4", "0.0005e0", "0.5e-3"),
    ),
    cel.LABEL_VALUE.cel: Samples(("", "a", "RTX4090", "us-west_1.x", "A" * 63), ("-a", "a-", "a b", "a/b", "ä", "a\n")),
    cel.QUALIFIED.cel: Samples(
        ("team", "nvidia.com/gpu", "tgp.io/gpu-type", "a" * 63),
        ("-x", "a/b/c", "Example.com/x", "/x", "x/", "a b", "a" * 64, ".com/x", "x\n"),
    ),
    cel.CIDR.cel: Samples(
        ("10.0.0.0/24", "0.0.0.0/0", "192.168.1.7/32", "fd00::/64", "::/0", "2001:db8:1:2:3:4:5:6/128", "1::8/127"),
        (
            "10.0.0.0",
            "10.0.0.0/33",
            "256.0.0.0/8",
            "10.0.0/24",
            "fd00::/129",
            "fd00:::/64",
            "1:2:3:4:5:6:7:8:9/64",
            "abc",
            "01.0.0.0/8",
            "10.0.0.0/24\n",
        ),
    ),
    cel.URL.cel: Samples(
        ("http://power-api/gpu-worker-1/start", "https://a.b:8443/x?y=z#w", "http://[fd00::1]:80/x", "http://10.0.0.1"),
        (
            "ftp://x",
            "http://",
            "http://user:pw@host/x",
            "http://host/a b",
            "host/x",
            "http://ho st/",
            "HTTP://x",
            "http://h/ä",
        ),
    ),
    common._NAMESPACE.cel: Samples(("", "a", "tgp-system"), ("-a", "A", "a.b", "a\n")),
    request._REGION_OR_EMPTY.cel: Samples(("", "us-west"), ("a b", "ä", "a\n")),
    cel.DNS_SUBDOMAIN.cel: Samples(
        ("a", "gpu-worker-1", "a.b-c.d", "1x"), ("A", "a_b", "-a", "a.", ".a", "a..b", "a\n")
    ),
    cel.SECRET_KEY.cel: Samples(("client-id", "RUNPOD_API_KEY", "a.b"), ("a b", "a/b", "ä", "a\n")),
    cel.GPU_NAME.cel: Samples(("RTX4090", "A100-80GB-SXM", "H100 PCIe", "L4"), ("-x", "RTX4090 ", "a/b", "ä", "x\n")),
    cel.CRON.cel: Samples(
        ("0 9 * * 1-5", "@daily", "*/5 0 1,15 JAN mon", "0  8 * * ?"),
        ("* * * *", "@never", "0 9 * * 1-5 2026", "a;b * * * *", " 0 9 * * 1", "0 9 * * 1\n"),
    ),
    cel.TIME_ZONE.cel: Samples(
        ("Europe/Berlin", "UTC", "Etc/GMT+5", "America/Argentina/Buenos_Aires"),
        ("Europe//Berlin", "/Berlin", "Europe Berlin", "Europe/Berlin\n"),
    ),
    cel.QUALIFIED_KEYS.cel: Samples(LABEL_KEYS, ("-x", "a/b/c", "a b", "a" * 64, "x/", "a" * 400 + "/x")),
    cel.OPEN_DOMAINS.cel: Samples(
        (
            *LABEL_KEYS,
            "kubernetes.io/arch",
            "topology.kubernetes.io/zone",
            "kubelet.kubernetes.io/x",
            "xkubernetes.io/y",
        ),
        (
            "kubernetes.io/hostname",
            "node-restriction.kubernetes.io/x",
            "node-role.kubernetes.io/gpu",
            "k8s.io/x",
            "a.k8s.io/x",
            "sub.node.kubernetes.io/x",
        ),
    ),
    cel.NOT_OURS.cel: Samples(
        (*LABEL_KEYS, "xtgp.io/y", "tgp.io.example/y"), ("tgp.io/nodepool", "tgp.io/x", "a.tgp.io/x")
    ),
    nodeclass._TEXT.cel: Samples(("us-west", "eu/central:1", "x"), ("", "a b", "ä", "a\n")),
    nodeclass._TAG_KEYS[0].cel: Samples(("owner", "cost:centre", "a/b_c.d", "Tgpx"), ("", "-x", "a b", "x-", "a" * 64)),
    nodeclass._TAG_KEYS[1].cel: Samples(
        ("owner", "tgpx", "my-tgp"), ("tgp", "tgp.io/cluster", "TGP-x", "Tgp_y", "tgp:z")
    ),
    nodeclass._PROJECT.cel: Samples(
        ("my-project-123", "abcdef"), ("Abcdef", "abc", "1abcdef", "abcdef-", "a" * 30 + "-")
    ),
    talos.WIREGUARD_KEY.cel: Samples(
        (_WG, "a+/" + "B" * 40 + "="), ("", "A" * 44, "A" * 42 + "==", _WG[1:], "ä" * 43 + "=")
    ),
    talos.HOST_PORT.cel: Samples(
        ("203.0.113.7:51820", "vpn.example.com:1", "[fd00::1]:51820"),
        ("host", "host:", "host:port", "ho st:1", "host:123456"),
    ),
    talos._TAG.cel: Samples(
        ("tag:gpu", "tag:k8s", "tag:a-b"), ("gpu", "tag:", "tag:1x", "Tag:gpu", "tag:a_b", "tag:gpu\n")
    ),
    talos.HOSTNAME.cel: Samples(("gpu", "GPU-1", "a"), ("-a", "a.b", "a_b", "a-", "a\n")),
    talos._IMAGE.cel: Samples(
        (
            "v1.10.5",
            "1.13.0",
            "ghcr.io/siderolabs/talos:v1.10.5",
            "localhost:5000/talos:v1.14.0-rc.1",
            "v1.10.5@sha256:" + "a" * 64,
        ),
        (
            "",
            "latest",
            "ghcr.io/siderolabs/talos",
            "talos:latest",
            "v1.10",
            "talos@sha256:" + "a" * 64,
            "v1.10.5\n",
            "ä:v1.10.5",
        ),
    ),
    talos._SCHEMATIC.cel: Samples(("0123456789abcdef" * 4,), ("", "abc", "0" * 63, "G" * 64)),
    talos._EXTENSION.cel: Samples(
        ("siderolabs/gvisor", "siderolabs/nvidia-container-toolkit-lts"),
        ("gvisor", "a/b/c", "Siderolabs/x", "siderolabs/"),
    ),
    request._REGION.cel: Samples(("us-west", "x"), ("", "a b", "ä", "a\n")),
    budget._ALERT.cel: Samples((1, 80, 100, 1000, "forecast"), (0, -5, 1001, "80%", "Forecast", "", "80")),
}


def for_rule(rule: Rule) -> Samples | None:
    """None: the rule stands on an object or a list, and is broken by how its parts go together."""
    return SAMPLES.get(rule.cel)
