"""A template's line on a screen: variables and structure are seen, what may be a secret is not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.joining.talos.redacted_line import shown


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ("  token: abcdef.0123456789abcdef", "  token: ***"),
        ('  "token": "abc"', '  "token": ***'),
        ("  id: c2hvcnQ=", "  id: ***"),
        ("    privateKey: 'x'", "    privateKey: ***"),
        ("    content: hunter2", "    content: ***"),
        ("  - TS_AUTHKEY=tskey-auth-k", "  - TS_AUTHKEY=***"),
        ("tailscale up --authkey tskey-1 --hostname=x", "tailscale up --authkey *** --hostname=x"),
        ("machine: {ca: {key: abc}, token: b}", "machine: {ca: {key: ***}, token: ***}"),
        ("  image: https://me:pass@example.org/x", "  image: https://***@example.org/x"),
        ("  crt: LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t", "  crt: ***"),
        ("word abcdef.0123456789abcdef word", "word *** word"),
        ("password hunter2 {{ if x }}", "password *** {{ if x }}"),
        ("  - TS_AUTHKEY=/a8fK", "  - TS_AUTHKEY=***"),
    ],
)
def test_what_may_be_a_secret_is_hidden(line, seen):
    assert shown(line) == seen


@pytest.mark.parametrize(
    "line",
    [
        "  token: {{.MachineToken}}",
        "    content: |",
        "  - path: /etc/systemd/system/tailscaled.service",
        "ExecStartPost=/usr/bin/tailscale up --authkey-file=/etc/tailscale/authkey --hostname={{.NodeName}}",
        'node.kubernetes.io/instance-type: "gpu"',
        "  systemd:",
        "    endpoint: {{.ControlPlaneEndpoint}}",
        "  - {path: /etc/tailscale/authkey, content: {{ .TailscaleAuthKey }}}",
    ],
)
def test_what_helps_to_find_the_place_is_seen(line):
    assert shown(line) == line


@given(
    key=st.sampled_from(("token", "key", "secret", "privateKey", "presharedKey", "password", "passphrase", "content")),
    value=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8).filter(lambda text: "{{" not in text),
    around=st.sampled_from(("  {}: {}", "{}: '{}'", "- {}: {}", '"{}": "{}"', "    {}:   {}  # why")),
)
def test_no_value_of_a_secret_key_is_ever_shown(key, value, around):
    assert value not in shown(around.format(key, value))


def test_no_line_is_endless():
    assert len(shown("a " * 10_000)) < 500
