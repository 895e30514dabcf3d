"""What `make release` puts into dist/."""

import hashlib
import re

import pytest

from tgp import __version__
from tools import release


def test_a_release_is_complete_and_its_checksums_hold(tmp_path):
    made = {path.name: path for path in release.release(__version__, tmp_path / "dist")}
    sums = dict(reversed(line.split("  ")) for line in made["SHA256SUMS"].read_text().splitlines())

    assert set(made) == {
        "CHANGELOG.md",
        "SHA256SUMS",
        "install.yaml",
        "sbom.cdx.json",
        f"tgp_operator-{__version__}-py3-none-any.whl",
        f"tgp-crds-{__version__}.tgz",
        f"tgp-operator-{__version__}.tgz",
    }
    assert sums == {
        name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in made.items() if name != "SHA256SUMS"
    }


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
