"""What a kubeconfig means, and how it says what is wrong with it."""

import base64
from collections.abc import Mapping
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.adapters.kube.config import ClusterTarget, choose, merge, parse
from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.config_files import ACCOUNT, find_target

FILE = "/home/me/.kube/config"


def data(content: str) -> str:
    return base64.b64encode(content.encode()).decode()


def a_config(cluster: str = "", user: str = "", context: str = "") -> bytes:
    """A kubeconfig with one of each; the arguments are further lines of flow-style YAML."""
    return f"""
apiVersion: v1
kind: Config
current-context: home
contexts:
- name: home
  context: {{cluster: c, user: u{context}}}
clusters:
- name: c
  cluster: {{server: "https://10.0.0.1:6443"{cluster}}}
users:
- name: u
  user: {{unknown-field: 1{user}}}
""".encode()


def target(cluster: str = "", user: str = "", context: str = "") -> ClusterTarget:
    return choose(parse(a_config(cluster, user, context), FILE))


def complaint(cluster: str = "", user: str = "", context: str = "") -> str:
    with pytest.raises(ConfigInvalid) as caught:
        target(cluster, user, context)
    return str(caught.value)


def test_the_current_context_is_chosen():
    found = target(context=", namespace: team")

    assert (found.context, found.namespace, found.cluster.server) == ("home", "team", "https://10.0.0.1:6443")


def test_without_a_namespace_it_is_default():
    assert target().namespace == "default"


def test_a_token_and_impersonation():
    user = target(user=', token: " abc ", as: alice, as-uid: "7", as-groups: [a, b], as-user-extra: {x: [y]}').user

    assert user.token == "abc"
    assert user.impersonation == (
        ("Impersonate-User", "alice"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-x", "y"),
    )


def test_paths_count_from_the_directory_of_their_file():
    found = target(
        cluster=", certificate-authority: pki/ca.crt",
        user=", tokenFile: ../token, client-certificate: /abs/c.crt, client-key: c.key",
    )

    assert found.cluster.authority.path == "/home/me/.kube/pki/ca.crt"
    assert found.user.token_file == "/home/me/.kube/../token"
    assert (found.user.certificate.path, found.user.key.path) == ("/abs/c.crt", "/home/me/.kube/c.key")


def test_data_wins_over_a_path():
    found = target(cluster=f", certificate-authority: ca.crt, certificate-authority-data: {data('PEM')}")

    assert (found.cluster.authority.data, found.cluster.authority.path) == (b"PEM", "")


def test_an_exec_plugin():
    plugin = target(
        user=""", exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [eks, get-token],
        env: [{name: AWS_PROFILE, value: dev}], installHint: get it, provideClusterInfo: true}"""
    ).user.plugin

    assert (plugin.command, plugin.args, plugin.env) == ("aws", ("eks", "get-token"), (("AWS_PROFILE", "dev"),))
    assert plugin.wants_cluster
    assert plugin.install_hint == "get it"


def test_a_plugin_with_a_relative_path_lies_beside_its_file():
    plugin = target(user=", exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: bin/login}").user.plugin

    assert plugin.command == "/home/me/.kube/bin/login"


def test_the_rest_of_a_cluster():
    cluster = target(
        cluster=', tls-server-name: kube, proxy-url: "http://u:p@proxy:3128", insecure-skip-tls-verify: true'
    )

    assert (cluster.cluster.server_name, cluster.cluster.insecure) == ("kube", True)
    assert cluster.cluster.proxy == "http://u:p@proxy:3128"


@pytest.mark.parametrize(
    ("where", "cluster", "user", "why"),
    [
        ("clusters[0].cluster.insecure-skip-tls-verify", ", insecure-skip-tls-verify: maybe", "", "true or false"),
        (
            "clusters[0].cluster.insecure-skip-tls-verify",
            f", insecure-skip-tls-verify: true, certificate-authority-data: {data('x')}",
            "",
            "together",
        ),
        ("clusters[0].cluster.certificate-authority-data", ', certificate-authority-data: "%%%"', "", "base64"),
        ("clusters[0].cluster.proxy-url", ', proxy-url: "socks5://h:1"', "", "proxies are supported"),
        ("users[0].user.token", "", ", token: 12345", "must be a string"),
        ("users[0].user.username", "", ", token: a, username: b", "both"),
        ("users[0].user.client-key", "", f", client-certificate-data: {data('x')}", "set both"),
        ("users[0].user.client-certificate", "", f", client-key-data: {data('x')}", "set both"),
        ("users[0].user.auth-provider", "", ", auth-provider: {name: gcp}", "exec plugin"),
        ("users[0].user.as", "", ", as-groups: [a]", "need it"),
        ("users[0].user.exec", "", ", exec: aws", "must be a mapping"),
        ("users[0].user.exec.apiVersion", "", ", exec: {command: aws}", "must be one of"),
        (
            "users[0].user.exec.apiVersion",
            "",
            ", exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: aws}",
            "must be one of",
        ),
        (
            "users[0].user.exec.command",
            "",
            ", exec: {apiVersion: client.authentication.k8s.io/v1}",
            "needs a command",
        ),
        (
            "users[0].user.exec.interactiveMode",
            "",
            ", exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}",
            "terminal",
        ),
        (
            "users[0].user.exec.args[1]",
            "",
            ", exec: {apiVersion: client.authentication.k8s.io/v1, command: x, args: [a, 1]}",
            "must be a string",
        ),
        (
            "users[0].user.exec.env",
            "",
            ", exec: {apiVersion: client.authentication.k8s.io/v1, command: x, env: {A: b}}",
            "must be a list",
        ),
    ],
)
def test_a_mistake_is_named_by_file_and_field(where: str, cluster: str, user: str, why: str):
    said = complaint(cluster, user)

    assert said.startswith(f"{FILE}: {where}: ")
    assert why in said


@pytest.mark.parametrize("server", ["10.0.0.1:6443", "ftp://h", ""])
def test_a_server_is_a_url(server: str):
    content = a_config().replace(b"https://10.0.0.1:6443", server.encode())

    with pytest.raises(ConfigInvalid, match=r"clusters\[0\]\.cluster\.server"):
        choose(parse(content, FILE))


def test_what_does_not_exist_is_named_with_what_does():
    config = parse(a_config(), FILE)

    with pytest.raises(ConfigInvalid, match="context 'work' does not exist; available: home, --context home for "):
        choose(config, "work")
    with pytest.raises(ConfigInvalid, match=r"contexts\[0\]\.context\.cluster: cluster 'x' does not exist"):
        choose(parse(a_config().replace(b"cluster: c,", b"cluster: x,"), FILE))
    with pytest.raises(ConfigInvalid, match="no current context is set"):
        choose(parse(a_config().replace(b"current-context: home", b""), FILE))


def test_a_broken_entry_harms_only_those_who_choose_it():
    content = (
        a_config()
        + b"""
- name: broken
  user: {token: [1]}
"""
    )
    assert choose(parse(content, FILE)).user.token == ""


@pytest.mark.parametrize("content", [b"", b"[1, 2]", b"a: b: c", b"\xff\xfe", b"x: &a [*a", b"- - - {", b"\t\tx: 1"])
def test_what_is_no_kubeconfig_is_refused_without_a_traceback(content: bytes):
    with pytest.raises(ConfigInvalid):
        choose(parse(content, FILE))


@given(st.binary(max_size=100))
def test_any_bytes_are_a_config_or_refused(content: bytes):
    with suppress(ConfigInvalid):
        choose(parse(content, FILE))


def test_a_complaint_never_quotes_a_value():
    """The token stands on the very line that is not YAML."""
    with pytest.raises(ConfigInvalid) as caught:
        parse(b'users:\n- name: u\n  user: {token: "s3cr3t', FILE)

    assert "s3cr3t" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_values_do_not_print_their_secrets():
    found = target(user=", token: s3cr3t", cluster=', proxy-url: "http://u:s3cr3t@p"')

    assert "s3cr3t" not in repr(found)


def test_the_first_file_to_set_something_wins():
    first = b"""
contexts: [{name: a, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "https://first"}}]
"""
    second = b"""
current-context: b
contexts: [{name: a, context: {cluster: other}}, {name: b, context: {cluster: c}}]
clusters: [{name: c, cluster: {server: "https://second"}}, {name: other, cluster: {server: "https://other"}}]
"""
    config = merge([parse(first, "/1"), parse(second, "/2")])

    assert choose(config).context == "b"
    assert choose(config, "a").cluster.server == "https://first"
    assert choose(config).cluster.server == "https://first"


class Disk:
    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    def read(self, path: str) -> bytes:
        if path not in self.files:
            raise FileNotFoundError(2, "No such file or directory")
        return self.files[path]


INSIDE = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": "/home/stranger"}
MOUNTED = {f"{ACCOUNT}/token": b"t", f"{ACCOUNT}/ca.crt": b"ca", f"{ACCOUNT}/namespace": b"tgp-system\n"}


def test_a_named_file_wins_over_everything():
    disk = Disk({"/named": a_config(), **MOUNTED})

    assert find_target("/named", "", {**INSIDE, "KUBECONFIG": "/other"}, disk.read).context == "home"


def test_a_named_file_that_is_missing_is_an_error():
    with pytest.raises(ConfigInvalid, match="/named: No such file"):
        find_target("/named", "", {}, Disk({}).read)


def test_kubeconfig_lists_files_and_passes_over_missing_ones():
    disk = Disk({"/b": a_config()})

    assert find_target("", "", {"KUBECONFIG": "/a::/b:/b"}, disk.read).context == "home"
    with pytest.raises(ConfigInvalid, match="no file that exists"):
        find_target("", "", {"KUBECONFIG": "/a:/c"}, disk.read)


def test_inside_a_pod():
    found = find_target("", "", INSIDE, Disk(MOUNTED).read)

    assert found.cluster.server == "https://[fd00::1]:443"
    assert found.user.token_file == f"{ACCOUNT}/token"
    assert found.cluster.authority.path == f"{ACCOUNT}/ca.crt"
    assert (found.namespace, found.context) == ("tgp-system", "")


def test_a_pod_without_a_token_falls_back_to_the_home_directory():
    assert find_target("", "", INSIDE, Disk({"/home/stranger/.kube/config": a_config()}).read).context == "home"


def test_nothing_at_all_says_where_it_looked():
    with pytest.raises(ConfigInvalid, match=r"KUBECONFIG is not set.*/home/stranger/\.kube/config"):
        find_target("", "", {"HOME": "/home/stranger"}, Disk({}).read)


def test_a_key_twice_is_refused_in_json_as_in_yaml():
    for written in ('{"current-context": "a", "current-context": "b"}', "current-context: a\ncurrent-context: b\n"):
        with pytest.raises(ConfigInvalid, match="is not YAML"):
            parse(written.encode(), FILE)


def test_a_config_in_json_means_the_same():
    written = (
        '{"current-context": "home", "contexts": [{"name": "home", "context": {"cluster": "c", "user": "u"}}],'
        ' "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443"}}],'
        ' "users": [{"name": "u", "user": {"unknown-field": 1}}]}'
    )

    assert choose(parse(written.encode(), FILE)) == target()
