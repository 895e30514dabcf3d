"""What `make release` puts into dist/."""

import hashlib
import re
import subprocess

import pytest

from tgp import __version__
from tools import manifests, release


def test_a_release_is_complete_and_its_checksums_hold(tmp_path):
    image = "registry.example/tgp-operator:1.2.3"
    made = {path.name: path for path in release.release(__version__, tmp_path / "dist", image)}
    sums = dict(reversed(line.split("  ")) for line in made["SHA256SUMS"].read_text().splitlines())

    assert set(made) == {
        "CHANGELOG.md",
        "SHA256SUMS",
        "install.yaml",
        "policies.yaml",
        "sbom.cdx.json",
        f"tgp_operator-{__version__}-py3-none-any.whl",
        f"tgp-crds-{__version__}.tgz",
        f"tgp-operator-{__version__}.tgz",
    }
    assert f'image: "{image}"\n' in made["install.yaml"].read_text()
    assert sums == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in made.items() if name != "SHA256SUMS"
    }


def test_without_helm_the_guards_are_a_second_command():
    """install.yaml is for every Kubernetes and has no policies. tests/controlplane tries those that Helm renders."""
    guards = ("tgp-operator-holdings", "tgp-operator-class-holdings", "tgp-older-kinds")
    written = manifests.POLICIES.read_text()

    for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert [name for name in guards if f"kind: {kind}\nmetadata:\n  name: {name}\n" not in written] == []
    for page in ("README.md", "docs/install.md"):
        text = (manifests.ROOT / page).read_text()
        assert "kubectl apply --server-side -f deploy/install.yaml" in text
        assert "kubectl apply -f deploy/policies.yaml" in text


def test_a_tree_that_is_not_its_commit_is_refused(tmp_path, monkeypatch):
    """tests/charts, which a release writes, may have changed."""
    for words in (("init", "-q"), ("config", "user.email", "a@b"), ("config", "user.name", "a")):
        subprocess.run(("git", *words), cwd=tmp_path, check=True)
    monkeypatch.setattr(release, "ROOT", tmp_path)
    monkeypatch.setattr(release, "PREVIOUS", tmp_path / "tests" / "charts")
    release.PREVIOUS.mkdir(parents=True)
    (release.PREVIOUS / "tgp.tgz").write_text("made by a release")
    release.refuse_changes()
    (tmp_path / "pyproject.toml").write_text("changed")

    with pytest.raises(release.ReleaseFailed, match=re.escape("pyproject.toml")):
        release.refuse_changes()


def test_another_version_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(release.ReleaseFailed, match=re.escape(__version__)):
        release.release("99.0.0", tmp_path / "dist")

    assert list(tmp_path.iterdir()) == []


def test_the_changelog_has_a_line_for_each_fragment():
    lines = release.changelog("1.2.3").splitlines()

    assert lines[0] == "# 1.2.3"
    assert len(lines) == 2 + len(list(release.FRAGMENTS.glob("*.change.md")))


def test_the_bill_of_materials_names_every_locked_package():
    locked = re.findall(r"^([A-Za-z0-9._-]+)==", release.RUNTIME.read_text(), re.MULTILINE)
    bill = release.bill("1.2.3")

    assert [each["name"] for each in bill["components"]] == locked
    assert all(each["hashes"] and each["purl"].startswith("pkg:pypi/") for each in bill["components"])


def test_a_release_whose_commit_is_not_in_the_history_is_not_replaced_by_the_tree(tmp_path, monkeypatch):
    """A shallow clone would otherwise upgrade from today's code to today's code, and prove nothing."""
    listed = tmp_path / "commits.txt"
    listed.write_text(f"0.0.1 {'0' * 40}\n")
    monkeypatch.setattr(release, "COMMITS", listed)

    with pytest.raises(release.ReleaseFailed, match="git fetch --unshallow"):
        release.former_code(tmp_path)
