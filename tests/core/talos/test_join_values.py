"""The join values: read from their Secret, made for it from files."""

from base64 import b64decode, b64encode
from datetime import UTC, datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.talos.a_plan import a_join, a_plan
from tests.core.talos.hostile import hostile_text
from tgp.core.joining.talos.join_values import NotJoinable, from_secrets_bundle, from_worker_config, read_join
from tgp.core.joining.talos.render import render
from tgp.core.model.join import NEEDED, OPTIONAL, JoinValues
from tgp.core.model.secret import Secret

KEY = Ed25519PrivateKey.generate()
KEY_PEM = KEY.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def in_base64(text):
    return b64encode(text.encode()).decode()


def a_certificate(*, authority=True):
    name = x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, "stranger")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    builder = builder.serial_number(7).not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
    builder = builder.not_valid_after(datetime(2036, 1, 1, tzinfo=UTC))
    if authority is not None:
        builder = builder.add_extension(x509.BasicConstraints(authority, None), critical=True)
    return builder.sign(KEY, None).public_bytes(Encoding.PEM).decode()


def some_values(**changes):
    join = a_join()
    values = {
        "machine-token": "abcdef.0123456789abcdef",
        "machine-ca.crt": join.machine_ca,
        "cluster-ca.crt": join.cluster_ca,
        "cluster-id": "aWQ=",
        "cluster-secret": "c2VjcmV0",
        "endpoint": "https://10.0.0.1:6443",
        "cluster-name": "home",
    }
    values |= {key.replace("_", "-"): value for key, value in changes.items()}
    return {key: Secret(value) for key, value in values.items() if value is not None}


def test_a_complete_secret_is_read():
    join = read_join(
        some_values(pod_subnets="10.1.0.0/16, fd00:1::/56\n", service_subnets="10.2.0.0/16", dns_domain="home.arpa")
    )

    assert isinstance(join, JoinValues)
    assert join.machine_token == Secret("abcdef.0123456789abcdef")
    assert join.machine_ca == a_join().machine_ca
    assert join.pod_subnets == ("10.1.0.0/16", "fd00:1::/56")
    assert join.service_subnets == ("10.2.0.0/16",)
    assert join.dns_domain == "home.arpa"
    assert "abcdef" not in repr(join)


def test_what_is_optional_has_taloss_own_defaults():
    join = read_join(some_values())

    assert isinstance(join, JoinValues)
    assert (join.pod_subnets, join.service_subnets, join.dns_domain) == (
        ("10.244.0.0/16",),
        ("10.96.0.0/12",),
        "cluster.local",
    )


@pytest.mark.parametrize("form", ["pem", "base64", "base64 in lines"])
def test_certificates_may_be_pem_or_base64_of_it(form):
    pem = b64decode(a_join().machine_ca).decode()
    given_as = {
        "pem": f"\n{pem}\n",
        "base64": in_base64(pem),
        "base64 in lines": in_base64(pem)[:76] + "\n" + in_base64(pem)[76:],
    }
    values = some_values() | {"machine-ca.crt": Secret(given_as[form])}
    join = read_join(values)

    assert isinstance(join, JoinValues)
    assert b64decode(join.machine_ca).decode() == pem
    assert "\n" not in join.machine_ca


@pytest.mark.parametrize("key", NEEDED)
def test_every_key_that_is_missing_is_named(key):
    values = {name: value for name, value in some_values().items() if name != key}

    assert read_join(values) == (f"{key} is missing",)
    assert read_join(values | {key: Secret(" \n")}) == (f"{key} is missing",)


def test_all_of_them_at_once():
    assert read_join({}) == tuple(f"{key} is missing" for key in NEEDED)


@pytest.mark.parametrize(
    "value", [KEY_PEM, in_base64(KEY_PEM), a_certificate() + KEY_PEM, in_base64(a_certificate() + KEY_PEM)]
)
@pytest.mark.parametrize("key", ["machine-ca.crt", "cluster-ca.key", "anything", "cluster-id"])
def test_a_private_key_is_refused_wherever_it_hides(key, value):
    problems = read_join(some_values() | {key: Secret(value)})

    assert problems == (f"{key} contains a private key: only certificates are allowed",)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"machine_token": "abc"}, "machine-token is not a token"),
        ({"machine_token": "ABCDEF.0123456789abcdef"}, "machine-token is not a token"),
        ({"cluster_secret": "not base64!"}, "cluster-secret is not base64"),
        ({"endpoint": "10.0.0.1:6443"}, "endpoint"),
        ({"endpoint": "http://10.0.0.1:6443"}, "endpoint must be https"),
        ({"endpoint": "https://:6443"}, "endpoint must be https"),
        ({"endpoint": "https://a:b@10.0.0.1:6443"}, "endpoint must be https"),
        ({"endpoint": "https://10.0.0.1:0"}, "port"),
        ({"endpoint": "https://10.0.0.1:70000"}, "endpoint is not a URL"),
        ({"endpoint": "https://10.0.0.1:6443/path"}, "must end after the port"),
        ({"endpoint": "https://[::1"}, "endpoint is not a URL"),
        ({"pod_subnets": "10.0.0.0/33"}, "pod-subnets must be networks"),
        ({"pod_subnets": "10.0.0.1"}, "pod-subnets must be networks"),
        ({"service_subnets": "x"}, "service-subnets must be networks"),
        ({"dns_domain": "not a domain"}, "dns-domain"),
        ({"cluster_name": "x" * 70_000}, "cluster-name is longer"),
    ],
)
def test_what_makes_no_sense_is_named_and_never_quoted(changes, says):
    problems = read_join(some_values(**changes))

    assert isinstance(problems, tuple)
    assert len(problems) == 1
    assert says in problems[0]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("!!!", "neither PEM nor base64"),
        (in_base64("hello"), "is not a certificate"),
        ("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----", "is not a certificate"),
        (a_certificate(authority=False), "not a certificate of a CA"),
        (a_certificate(authority=None), "not a certificate of a CA"),
    ],
)
def test_only_the_certificate_of_a_ca_will_do(value, says):
    problems = read_join(some_values() | {"cluster-ca.crt": Secret(value)})

    assert isinstance(problems, tuple)
    assert problems[0].startswith("cluster-ca.crt ")
    assert says in problems[0]


def test_one_ca_for_two_is_refused():
    """The early templates had one variable for both; Talos and Kubernetes have one CA each."""
    problems = read_join(some_values() | {"cluster-ca.crt": Secret(a_join().machine_ca)})

    assert isinstance(problems, tuple)
    assert "are the same certificate" in problems[0]


# ---- from files


def test_a_worker_config_gives_the_secret_and_nothing_more():
    text = render(a_plan(), a_join(dns_domain="home.arpa"), None).text
    data = from_worker_config(text)

    assert set(data) == {*NEEDED, *OPTIONAL}
    assert data["dns-domain"] == "home.arpa"
    assert data["pod-subnets"] == "10.244.0.0/16"
    join = read_join({key: Secret(value) for key, value in data.items()})
    assert join == a_join(dns_domain="home.arpa")


def test_a_token_of_digits_alone_is_still_a_token():
    text = render(a_plan(), a_join(machine_token=Secret("123456.0123456789012345")), None).text
    bare = text.replace('"123456.0123456789012345"', "123456.0123456789012345")

    assert bare != text
    assert from_worker_config(bare)["machine-token"] == "123456.0123456789012345"


def a_bundle():
    join = a_join()
    key = in_base64(KEY_PEM)
    return f"""\
cluster:
  id: aWQ=
  secret: c2VjcmV0
secrets:
  bootstraptoken: zzzzzz.0123456789abcdef
  secretboxencryptionsecret: canary
trustdinfo:
  token: abcdef.0123456789abcdef
certs:
  etcd: {{crt: {join.machine_ca}, key: {key}}}
  k8s: {{crt: {join.cluster_ca}, key: {key}}}
  k8saggregator: {{crt: {join.machine_ca}, key: {key}}}
  k8sserviceaccount: {{key: {key}}}
  os: {{crt: {join.machine_ca}, key: {key}}}
"""


def test_of_a_secrets_bundle_only_the_workers_part_is_taken():
    data = from_secrets_bundle(a_bundle(), endpoint="https://10.0.0.1:6443", cluster_name="home")

    assert set(data) == set(NEEDED)
    assert data["machine-ca.crt"] == a_join().machine_ca
    assert data["cluster-ca.crt"] == a_join().cluster_ca
    for value in data.values():
        assert "canary" not in value
        assert "zzzzzz" not in value
        assert in_base64(KEY_PEM) not in value


def test_a_control_planes_config_gives_up_no_key():
    text = render(a_plan(), a_join(), None).text.replace(
        "  ca:\n    crt:", f"  ca:\n    key: {in_base64(KEY_PEM)}\n    crt:"
    )
    data = from_worker_config(text)

    assert data["machine-ca.crt"] == a_join().machine_ca
    assert all(in_base64(KEY_PEM) not in value for value in data.values())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: 1", "has no section machine"),
        ("machine: {}", "machine-token is missing"),
        ("machine: [", "not valid YAML"),
        ("kind: X\nmachine: {}", "has no section machine"),
    ],
)
def test_a_file_that_will_not_do_is_told(text, says):
    with pytest.raises(NotJoinable, match=says):
        from_worker_config(text)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.sampled_from((*NEEDED, *OPTIONAL)), hostile_text()))
def test_no_value_makes_the_reader_stumble_or_is_quoted(values):
    marked = {key: Secret(f"canary{value}") for key, value in values.items()}
    problems = read_join(some_values() | marked)

    if isinstance(problems, tuple):
        assert "canary" not in " ".join(problems)
