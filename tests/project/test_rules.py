"""The rules of the repository, checked against the tree."""

import ast
import json
import re
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "tgp"


def _tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return ""


def test_architecture_names_only_what_exists():
    """A map that drifted is worse than none: every path in it is in the tree."""
    named = re.findall(r"`((?:src|tests|tools|bench|docs|deploy)/[\w./-]*)`", (ROOT / "ARCHITECTURE.md").read_text())

    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_architecture_names_every_room():
    """A room that the map does not know is either a mistake or a missing sentence."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = [path for path in SOURCE.iterdir() if (path / "__init__.py").is_file()]
    neighbours = [path for path in (SOURCE / "adapters").iterdir() if (path / "__init__.py").is_file()]

    assert [room.name for room in rooms + neighbours if f"`src/tgp/{room.relative_to(SOURCE)}/`" not in text] == []


BROAD = re.compile(r"\bexcept\s*:|\b(?:Base)?Exception\b")  # only a file that says so can have a broad one


def test_three_broad_excepts_exist():
    """The runtime's, around a whole reconcile; that around a plan, which is one for all pools; and that of the
    simulated event loop, which does as asyncio's own does.

    Other code catches only what it can handle.
    """
    broad = []
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)) if BROAD.search(text) else ():
            if isinstance(node, ast.ExceptHandler) and _is_broad(node.type):
                broad.append(str(path.relative_to(SOURCE)))

    assert sorted(broad) == ["adapters/kube/runtime.py", "controllers/pools/plan_runner.py", "sim/loop.py"]


def _is_broad(caught: ast.expr | None) -> bool:
    names = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(
        name is None or (isinstance(name, ast.Name) and name.id in {"Exception", "BaseException"}) for name in names
    )


def test_the_wheel_and_the_lock_ask_for_the_same():
    """What the wheel declares is what the lock was made from."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    lines = (ROOT / "requirements" / "runtime.in").read_text().splitlines()

    assert sorted(declared) == sorted(line for line in lines if line and not line.startswith("#"))


def test_locks_carry_hashes_and_no_address():
    """A lock names what to install and how to recognise it, never the place it was made."""
    for lock in (ROOT / "requirements").rglob("*.txt"):
        text = lock.read_text()
        assert "--hash=sha256:" in text, lock
        assert not re.search(r"https?://|--index-url|--find-links|/(?:home|root|opt)/", text), lock
    for lock in (ROOT / "requirements").rglob("package-lock.json"):
        packages = json.loads(lock.read_text())["packages"]
        assert all("integrity" in held for name, held in packages.items() if name), lock
        assert not any("resolved" in held for held in packages.values()), lock


def test_files_name_no_path_of_a_machine():
    private = re.compile(r"(?<![\w.])/(?:root|farm|work)/")

    assert [str(path) for path in _tracked() if private.search(_text(path)) and path.name != Path(__file__).name] == []


def test_changelog_fragments_are_one_sentence():
    """`changelog.d/<topic>.change.md`: one sentence, present tense, for the people who upgrade."""
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]

    assert fragments
    for path in fragments:
        assert re.fullmatch(r"[a-z0-9-]+\.change\.md", path.name), path.name
        text = path.read_text().strip()
        assert "\n" not in text, f"{path.name}: more than one line"
        assert text.endswith("."), f"{path.name}: a sentence ends"


def test_links_inside_the_documentation_lead_somewhere():
    missing = []
    for page in [path for path in _tracked() if path.suffix == ".md"]:
        for target in re.findall(r"\]\(([^)#\s]+)\)", _text(page)):
            if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
                missing.append(f"{page.relative_to(ROOT)}: {target}")

    assert missing == []
