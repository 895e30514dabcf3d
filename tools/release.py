"""`make release VERSION=… IMG=…`: everything of a release into `dist/`, and nothing is pushed.

Changelog, both charts, install.yaml and policies.yaml, the wheel (built twice, and equal), a bill of materials,
checksums. The packaged charts are also kept in tests/charts: the next release is tried as an upgrade of them.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from tgp import __version__
from tools import toolbox
from tools.controlplane.helm import Helm
from tools.manifests import CHART, INSTALL, KINDS_CHART, POLICIES, ROOT, installer

DIST = ROOT / "dist"
FRAGMENTS = ROOT / "changelog.d"
PREVIOUS = ROOT / "tests" / "charts"
COMMITS = PREVIOUS / "commits.txt"  # of earlier releases: version and commit, the newest last
RUNTIME = ROOT / "requirements" / "runtime.txt"
LOCKED = re.compile(r"^([\w.-]+)==([^\s;]+)[^\\\n]*((?:\\\n    --hash=sha256:[0-9a-f]{64} ?)+)", re.MULTILINE)
VERSIONED = ("src/tgp/__init__.py", "pyproject.toml", "deploy/charts/*/Chart.yaml")
BUILD_BOUND_S = 300
IN_THE_WHEEL = ("src/tgp", "deploy", "pyproject.toml")


class ReleaseFailed(Exception):
    """The text says what to change."""


def main() -> int:
    asked, image, *_ = (*sys.argv[1:], "", "")
    try:
        refuse_changes()
        made = release(asked, DIST, image)
    except ReleaseFailed as error:
        print(error, file=sys.stderr)
        return 1
    PREVIOUS.mkdir(exist_ok=True)
    for chart in made:
        if chart.suffix == ".tgz":
            shutil.copy(chart, PREVIOUS)
    keep_commit(asked)
    print("\n".join(str(path.relative_to(ROOT)) for path in made))
    print(f"Nothing was pushed. Commit {PREVIOUS.relative_to(ROOT)}, remove the fragments in changelog.d, and tag.")
    return 0


def refuse_changes() -> None:
    """Raises ReleaseFailed where the tree is not its commit, whose code the next release is tried beside."""
    changed = _git("status", "--porcelain", "--", ".", f":!{PREVIOUS.relative_to(ROOT)}").splitlines()
    if changed:
        raise ReleaseFailed(
            f"{len(changed)} files are not committed, {changed[0][2:].strip()} for example: commit first"
        )


def release(version: str, into: Path, image: str = "") -> list[Path]:
    """Raises ReleaseFailed before anything is written where the version is not that of the tree.

    `image`: where it was pushed, with its tag, for install.yaml; empty: the chart's own name, to be changed in it.
    """
    if version != __version__:
        said = f"VERSION={version}" if version else "no VERSION was given"
        raise ReleaseFailed(f"{said}, but the tree has {__version__}: change it in {', '.join(VERSIONED)}")
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    (into / "CHANGELOG.md").write_text(changelog(version), encoding="utf-8")
    (into / "sbom.cdx.json").write_text(json.dumps(bill(version), indent=2) + "\n", encoding="utf-8")
    shutil.copy(POLICIES, into)
    wheel(into)
    with tempfile.TemporaryDirectory() as home:
        helm = Helm(toolbox.find(toolbox.HELM_CLIENT), Path(home))
        (into / INSTALL.name).write_text(installer(helm, image, DIST.name), encoding="utf-8")
        for chart in (CHART, KINDS_CHART):
            helm("package", str(chart), f"--destination={into}")
    sums = [f"{_digest(path)}  {path.name}\n" for path in sorted(into.iterdir())]
    (into / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
    return sorted(into.iterdir())


def keep_commit(version: str) -> None:
    """Whose code the charts are for: the next release is tried beside it."""
    others = [line for line in COMMITS.read_text("utf-8").splitlines() if line.split()[0] != version]
    COMMITS.write_text("\n".join((*others, f"{version} {_git('rev-parse', 'HEAD')}", "")), encoding="utf-8")


def _git(*arguments: str) -> str:
    return subprocess.run(("git", *arguments), cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def former_code(into: Path) -> tuple[Path, dict[str, Path]]:
    """The newest chart of an earlier release, and its code, unpacked, by the tag of its image.

    Not earlier is what `make release` has written for the tree's own version. Raises ReleaseFailed where the history
    does not go back so far: another release's code in its place would prove nothing.
    """
    released = (line.split() for line in COMMITS.read_text("utf-8").splitlines())
    *_, (version, commit) = (each for each in released if each[0] != __version__)
    chart = PREVIOUS / f"tgp-operator-{version}.tgz"
    packed = subprocess.run(("git", "archive", commit, *IN_THE_WHEEL), cwd=ROOT, capture_output=True, check=False)
    if packed.returncode != 0:
        raise ReleaseFailed(
            f"commit {commit} of release {version} is not in this clone's history, so its code cannot be run: "
            "git fetch --unshallow"
        )
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as archive:
        archive.extractall(into, filter="data")
    project = tomllib.loads((into / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"].get("force-include", {})
    for source, place in included.items():
        (into / "src" / place).parent.mkdir(parents=True, exist_ok=True)
        (into / source).rename(into / "src" / place)
    return chart, {version: into / "src" / "tgp"}


def changelog(version: str) -> str:
    """One line per fragment, in the order of their names."""
    fragments = sorted(FRAGMENTS.glob("*.change.md"))
    lines = [f"- {' '.join(path.read_text('utf-8').split())}" for path in fragments]
    return "\n".join((f"# {version}", "", *lines, ""))


def wheel(into: Path) -> None:
    """Twice: what cannot be built again byte for byte cannot be checked by others."""
    when = _git("log", "-1", "--format=%ct")
    with tempfile.TemporaryDirectory() as folder:
        first, second = (_built(Path(folder) / turn, when) for turn in ("first", "second"))
        if _digest(first) != _digest(second):
            raise ReleaseFailed("two builds of the wheel differ: something of this machine or moment gets into it")
        shutil.copy(first, into)


def _built(place: Path, when: str) -> Path:
    subprocess.run(
        (sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(place)),
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": when},
        capture_output=True,
        timeout=BUILD_BOUND_S,
        check=True,
    )
    (built,) = place.glob("*.whl")
    return built


def bill(version: str) -> dict[str, Any]:
    """CycloneDX 1.6: every package that the image installs, with the hashes it is recognised by."""
    packages = LOCKED.findall(RUNTIME.read_text("utf-8"))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "tgp", "version": version, "bom-ref": "tgp"}},
        "components": [
            {
                "type": "library",
                "name": name,
                "version": number,
                "purl": f"pkg:pypi/{name.lower()}@{number}",
                "bom-ref": f"pkg:pypi/{name.lower()}@{number}",
                "hashes": [{"alg": "SHA-256", "content": each} for each in re.findall(r"[0-9a-f]{64}", hashes)],
            }
            for name, number, hashes in packages
        ],
    }


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
