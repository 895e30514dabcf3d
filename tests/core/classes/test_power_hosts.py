"""Where a switching call may go, and where never."""

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.classes.hostile_urls import API_SERVER, FINE, HOSTILE, NAMES
from tgp.core.classes.power_hosts import NEVER, HostRefused, HostRules, PowerTarget, embedded, judge, read

RULES = HostRules(api_server=API_SERVER)


def addresses(text: str):
    return tuple(ip_address(each) for each in text.split())


def judged(url: str, rules: HostRules = RULES) -> PowerTarget:
    """As a caller does it: read, resolve, judge."""
    target = read(url, rules)
    if target.literal is None:
        judge(NAMES.get(target.host, (ip_address("10.0.0.7"),)), target.host, rules)
    return target


@pytest.mark.parametrize("url", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_url_is_refused(url: str):
    with pytest.raises(HostRefused):
        judged(url)


def test_there_are_enough_of_them():
    assert len(set(HOSTILE.values())) >= 60


@pytest.mark.parametrize("url", FINE)
def test_a_good_url_is_read_as_what_it_is(url: str):
    origin, path, _ = FINE[url]
    target = judged(url)

    assert (target.origin, target.path) == (origin, path)


def test_a_query_is_kept_and_not_printed():
    target = read("http://power-api/start?token=hunter2&go")

    assert target.query == (("token", "hunter2"), ("go", ""))
    assert "hunter2" not in repr(target)


@pytest.mark.parametrize(
    "url", ["http://user:hunter2@power-api/", "http://power-api/?hunter2#x", "http://10.0.0.1:22/hunter2", "hunter2"]
)
def test_a_refusal_quotes_no_path_query_or_password(url: str):
    with pytest.raises(HostRefused) as error:
        read(url)
    assert "hunter2" not in str(error.value)


@given(st.ip_addresses())
def test_an_address_is_refused_exactly_if_it_or_what_it_hides_lies_in_a_refused_network(address):
    hidden = [address, *embedded(address)]
    bad = any(one in network for one in hidden for _, networks in NEVER for network in networks)
    if bad:
        with pytest.raises(HostRefused):
            judge((address,), "host")
    else:
        assert judge((address,), "host") == (address,)


EMBEDDINGS = {
    "mapped": lambda v4: (0xFFFF << 32) | v4,
    "compatible": lambda v4: v4,
    "translated": lambda v4: (0xFFFF0000 << 32) | v4,
    "NAT64": lambda v4: (0x64FF9B << 96) | v4,
    "NAT64 behind 48 bits": lambda v4: (0x64FF9B0001 << 80) | ((v4 >> 16) << 64) | ((v4 & 0xFFFF) << 40),
    "NAT64 behind 56 bits": lambda v4: (0x64FF9B0001 << 80) | ((v4 >> 24) << 64) | ((v4 & 0xFFFFFF) << 32),
    "NAT64 behind 64 bits": lambda v4: (0x64FF9B0001 << 80) | (v4 << 24),
    "6to4": lambda v4: (0x2002 << 112) | (v4 << 80),
    "Teredo's server": lambda v4: (0x20010000 << 96) | (v4 << 64),
    "Teredo's client": lambda v4: (0x20010000 << 96) | (~v4 & 0xFFFFFFFF),
    "ISATAP": lambda v4: (0xFD00 << 112) | (0x5EFE << 32) | v4,
    "ISATAP of a global address": lambda v4: (0xFD00 << 112) | (0x02005EFE << 32) | v4,
}


@pytest.mark.parametrize("how", EMBEDDINGS.values(), ids=EMBEDDINGS)
@given(inside=st.ip_addresses(v=4, network="169.254.0.0/16"))
def test_metadata_does_not_hide_inside_an_address(how, inside):
    """RFC 6052 leaves out bits 64 to 71; the others just append."""
    outer = ip_address(how(int(inside)).to_bytes(16, "big"))

    assert inside in set(embedded(outer))
    with pytest.raises(HostRefused):
        judge((outer,), "host")


@pytest.mark.parametrize(
    "text", ["10.0.0.7", "172.16.3.4", "192.168.1.20", "100.64.0.9", "fd00::7", "2001:db8::1", "8.8.8.8"]
)
def test_machines_live_at_private_addresses_too(text: str):
    assert judge(addresses(text), "power-api") == addresses(text)


def test_the_api_server_is_refused_only_where_it_is():
    with pytest.raises(HostRefused, match="API server"):
        judge(addresses("10.96.0.1"), "power-api", RULES)
    assert judge(addresses("10.96.0.2"), "power-api", RULES)


def test_a_name_without_an_address_is_refused():
    with pytest.raises(HostRefused):
        judge((), "power-api")


# -- narrowed ----------------------------------------------------------------------------------------------------------

NARROWED = {
    ("power-api", "http://power-api/", "10.0.0.7"): True,
    ("power-api", "http://POWER-API./", "10.0.0.7"): True,
    ("power-api", "http://other/", "10.0.0.7"): False,
    ("power-api", "http://10.0.0.7/", ""): False,
    ("power-api", "http://power-api.evil.test/", "10.0.0.7"): False,
    ("*.lab", "http://power.lab/", "10.0.0.7"): True,
    ("*.lab", "http://a.b.lab/", "10.0.0.7"): True,
    ("*.lab", "http://lab/", "10.0.0.7"): False,
    ("*.lab", "http://evillab/", "10.0.0.7"): False,
    ("10.0.0.0/8", "http://10.0.0.7/", ""): True,
    ("10.0.0.0/8", "http://11.0.0.7/", ""): False,
    ("10.0.0.0/8", "http://power-api/", "10.0.0.7"): True,
    ("10.0.0.0/8", "http://power-api/", "10.0.0.7 192.168.0.1"): False,
    ("10.0.0.7", "http://10.0.0.7/", ""): True,
    ("fd00::/8", "http://[fd00::7]/", ""): True,
    ("fd00::/8", "http://10.0.0.7/", ""): False,
    ("other 10.0.0.0/8", "http://power-api/", "10.0.0.7"): True,
    ("power-api other", "http://other/", "192.168.0.1"): True,
}


@pytest.mark.parametrize("case", NARROWED)
def test_allowed_hosts_narrow(case):
    allowed, url, at = case
    rules = HostRules(allowed=tuple(allowed.split()))

    def call() -> None:
        target = read(url, rules)
        if target.literal is None:
            judge(addresses(at), target.host, rules)

    if NARROWED[case]:
        call()
    else:
        with pytest.raises(HostRefused, match="allowedHosts"):
            call()


@pytest.mark.parametrize(
    ("allowed", "url"),
    [
        ("localhost", "http://localhost/"),
        ("127.0.0.0/8", "http://127.0.0.1/"),
        ("0.0.0.0/0", "http://169.254.169.254/"),
        ("::/0", "http://[::1]/"),
        ("metadata.google.internal", "http://metadata.google.internal/"),
        ("*.svc", "http://kubernetes.default.svc/"),
    ],
)
def test_they_only_narrow(allowed: str, url: str):
    """What is never called stays so, even if it is allowed."""
    with pytest.raises(HostRefused):
        read(url, HostRules(allowed=(allowed,)))


@pytest.mark.parametrize(
    "pattern", ["", "*", "*.", "a*b", "Power", "http://power-api", "power-api:80", "10.0.0.1/8", "a b"]
)
def test_a_pattern_that_allows_nothing_is_refused_at_once(pattern: str):
    with pytest.raises(ValueError, match="is not a host pattern"):
        HostRules(allowed=(pattern,))


# -- pretence ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["http://127.0.0.1:8080/", "http://[::1]:8080/", "http://localhost:8080/"])
def test_in_pretence_loopback_is_where_everything_lives(url: str):
    assert judged_in_pretence(url)


def judged_in_pretence(url: str) -> PowerTarget:
    rules = HostRules(for_pretence=True)
    target = read(url, rules)
    if target.literal is None:
        judge(addresses("127.0.0.1 ::1"), target.host, rules)
    return target


@pytest.mark.parametrize("url", ["http://169.254.169.254/", "http://0.0.0.0/", "http://[fe80::1]/", "http://metadata/"])
def test_and_everything_else_is_as_strict(url: str):
    with pytest.raises(HostRefused):
        judged_in_pretence(url)


def test_the_refused_networks_are_what_the_standards_say():
    """Of the standard library's judgement nothing bad is missing but what we allow on purpose: private addresses."""
    for text in ("127.9.9.9", "169.254.0.1", "224.0.0.251", "255.255.255.255", "::1", "fe80::9", "ff05::1", "::"):
        assert any(ip_address(text) in network for _, networks in NEVER for network in networks)
    assert not any(ip_network("10.0.0.0/8").overlaps(n) for _, ns in NEVER for n in ns if n.version == 4)
