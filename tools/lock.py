"""`make lock`: write the hash-locked requirement files again from what is wanted. Needs a package index."""

import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("runtime", "build", "dev", "go")
CLIENTS = "clients"  # a folder: one vendor's client each, locked apart from all others
COMPILE = (
    "pip",
    "compile",
    "--universal",
    "--python-version",
    "3.11",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-header",
    "--quiet",
)
NPM_LOCK = (
    "npm",
    "install",
    "--package-lock-only",
    "--ignore-scripts",
    "--omit-lockfile-registry-resolved",
    "--no-audit",
    "--no-fund",
)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        print("· fetching uv …", flush=True)
        venv.create(folder, with_pip=True)
        subprocess.run([f"{folder}/bin/pip", "install", "--quiet", "--disable-pip-version-check", "uv"], check=True)
        for name in _names():
            wanted, locked = f"requirements/{name}.in", f"requirements/{name}.txt"
            subprocess.run([f"{folder}/bin/uv", *COMPILE, *sys.argv[1:], wanted, "-o", locked], cwd=ROOT, check=True)
            print(f"✓ {locked}", flush=True)
    for client in sorted((ROOT / "requirements" / CLIENTS / "npm").glob("*/package.json")):
        subprocess.run(NPM_LOCK, cwd=client.parent, check=True)
        print(f"✓ {client.parent.relative_to(ROOT)}/package-lock.json", flush=True)
    return 0


def _names() -> list[str]:
    clients = sorted(path.stem for path in (ROOT / "requirements" / CLIENTS).glob("*.in"))
    return [*NAMES, *(f"{CLIENTS}/{client}" for client in clients)]


if __name__ == "__main__":
    sys.exit(main())
