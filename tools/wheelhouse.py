"""`make wheelhouse`: the packages of the image into `build/wheelhouse`, each by a hash of `requirements/`.

The image is built from them without a network. They are for the Python of the Dockerfile's base, amd64 and arm64.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
WHEELHOUSE = ROOT / "build" / "wheelhouse"
LOCKS = tuple(ROOT / "requirements" / f"{name}.txt" for name in ("build", "runtime"))
ENTRY = re.compile(r"^([\w.-]+==[^\\\n]*?) ?\\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)
BASE_PYTHON = re.compile(r"^ARG BASE=python:(\d+\.\d+)-", re.MULTILINE)
MACHINES = ("x86_64", "aarch64")
LIBRARIES = (17, 24, 26, 27, 28, 31, 34)  # of C, 2.x: what wheels ask for at least, and the base has
DOWNLOAD_BOUND_S = 600


class DownloadFailed(Exception):
    """The text is pip's own."""


def main() -> int:
    found = BASE_PYTHON.search((ROOT / "Dockerfile").read_text(encoding="utf-8"))
    assert found is not None, "the Dockerfile names its base as python:X.Y-…"
    for machine in MACHINES:
        fill(WHEELHOUSE, found.group(1), machine)
    print(f"{len(list(WHEELHOUSE.iterdir()))} packages in {WHEELHOUSE.relative_to(ROOT)}, Python {found.group(1)}")
    return 0


def fill(folder: Path, python: str, machine: str) -> None:
    """All packages that the locks name for this Python and machine. Raises DownloadFailed."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch) / "wanted.txt"
        wanted.write_text("".join(for_this(LOCKS, python, machine)), encoding="utf-8")
        platforms = (f"--platform=manylinux_2_{minor}_{machine}" for minor in LIBRARIES)
        command = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")
        source = ("--require-hashes", "--only-binary=:all:", f"--requirement={wanted}", f"--dest={folder}")
        done = subprocess.run(
            (*command, *source, f"--python-version={python}", *platforms, f"--platform=manylinux2014_{machine}"),
            capture_output=True,
            text=True,
            timeout=DOWNLOAD_BOUND_S,
            check=False,
        )
    if done.returncode != 0:
        raise DownloadFailed(done.stderr.strip())


def for_this(locks: Iterable[Path], python: str, machine: str) -> Iterator[str]:
    """Lines for pip, without markers: it would judge those by the Python it runs on."""
    environment = {"python_version": python, "python_full_version": f"{python}.99", "platform_machine": machine}
    chosen: dict[str, str] = {}
    for lock in locks:
        for entry, hashes in ENTRY.findall(lock.read_text(encoding="utf-8")):
            wanted = Requirement(entry)
            if wanted.marker is None or wanted.marker.evaluate(environment):
                chosen[f"{wanted.name}{wanted.specifier}"] = hashes
    for name, hashes in chosen.items():
        yield f"{name} \\\n{hashes}"


if __name__ == "__main__":
    sys.exit(main())
