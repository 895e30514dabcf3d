"""Which Talos and which kubelet a machine gets, by default; and what is incompatible."""

import pytest

from tgp.core.joining.talos.releases import CONTROL_PLANE, kubelet_for, running
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.talos import read_version

LEADS = {CONTROL_PLANE: ""}


def a_node(name: str, image: str, labels: dict[str, str] | None = None) -> Node:
    return Node(key=ObjectKey("", name), os_image=image, labels=labels or {})


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("v1.10.5", "v1.10.5"),
        ("1.13.0", "v1.13.0"),
        ("ghcr.io/siderolabs/talos:v1.10.5", "v1.10.5"),
        ("ghcr.io/siderolabs/talos:v1.10.5@sha256:" + "a" * 64, "v1.10.5"),
        ("Talos (v1.12.0)", "v1.12.0"),
        ("v1.14.0-rc.1", "v1.14.0-rc.1"),
        ("Ubuntu 24.04", None),
        ("v2.0.0", None),
        ("latest", None),
    ],
)
def test_a_version_is_read_wherever_it_stands(text: str, version: str | None):
    assert (str(read_version(text)) if read_version(text) else None) == version


def test_a_candidate_comes_before_its_release():
    candidate, release, newer = (read_version(each) for each in ("v1.14.0-rc.1", "v1.14.0", "v1.14.1"))
    assert candidate is not None
    assert release is not None
    assert newer is not None
    assert candidate < release < newer


def test_machines_run_what_the_control_plane_runs():
    nodes = [a_node("w1", "Talos (v1.10.5)"), a_node("w2", "Talos (v1.10.5)"), a_node("c1", "Talos (v1.12.0)", LEADS)]
    assert str(running(nodes)) == "v1.12.0"
    assert str(running(nodes[:2])) == "v1.10.5"
    assert running([a_node("u", "Ubuntu 24.04")]) is None
    assert running([a_node("old", "Talos (v1.7.0)")]) is None


@pytest.mark.parametrize(
    ("said", "server", "talos", "image"),
    [
        (None, "v1.33.2", "v1.10.5", "ghcr.io/siderolabs/kubelet:v1.33.2"),
        (None, "v1.33.2+k3s1", "v1.10.5", "ghcr.io/siderolabs/kubelet:v1.33.2"),
        (None, "v1.36.3", "v1.10.5", "ghcr.io/siderolabs/kubelet:v1.33.0"),  # the newest that this Talos runs
        ("v1.32.1", "v1.33.2", "v1.10.5", "ghcr.io/siderolabs/kubelet:v1.32.1"),
        ("example.org/kubelet:v1.32.1", "v1.33.2", "v1.10.5", "example.org/kubelet:v1.32.1"),
    ],
)
def test_the_kubelet_is_the_api_servers_or_the_one_that_was_named(
    said: str | None, server: str, talos: str, image: str
):
    version = read_version(talos)
    assert version is not None
    assert kubelet_for(said, server, version) == (image, "")


@pytest.mark.parametrize(
    ("said", "server", "talos", "why"),
    [
        ("v1.34.0", "v1.33.2", "v1.11.0", "newer than the API server"),
        (None, "v1.37.0", "v1.10.5", "too old for the API server"),
        ("v1.26.0", "v1.33.2", "v1.10.5", "does not run a kubelet of version 1.26"),
        (None, "whatever", "v1.10.5", "set talosConfig.kubeletImage"),
    ],
)
def test_a_kubelet_that_would_not_do_is_refused_in_words(said: str | None, server: str, talos: str, why: str):
    version = read_version(talos)
    assert version is not None
    image, words = kubelet_for(said, server, version)
    assert image == ""
    assert why in words
