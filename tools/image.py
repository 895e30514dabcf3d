"""`make image`: the operator's image from the Dockerfile, without a Docker engine and without a network.

Its base is Debian with Python, made from Debian's packages; buildah follows the Dockerfile. Needs root. The last line
is `image compressed_mb=… unpacked_mb=… seconds=…`. Results are kept like other tools, by what went into them.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.toolbox.cache import Cache, Say, cache_home
from tools.toolbox.debian import programs
from tools.toolbox.find import say_on_stderr
from tools.toolbox.trouble import ToolboxError
from tools.wheelhouse import ROOT, WHEELHOUSE, fill

PYTHON = "3.11"  # Debian's own
UNNEEDED = ("doc", "info", "locale", "man")  # of /usr/share: bases named "slim" leave them out, too
NEED_PERL = "usrmerge perl perl-modules-5.36 libperl5.36"  # come with the essential packages; usr-is-merged will do
RECIPE = (  # of the base
    "--variant=minbase",
    "--include=python3,ca-certificates,usr-is-merged",
    *(f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in UNNEEDED),
    f'--customize-hook=chroot "$1" apt-get purge --yes --quiet --auto-remove {NEED_PERL}',
    '--customize-hook=rm -rf "$1"/var/cache/* "$1"/var/lib/apt/lists/*',
    "bookworm",
)
COPIED = (
    "Dockerfile",
    ".dockerignore",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "requirements/build.txt",
    "requirements/runtime.txt",
)
BASE, NAME = "localhost/tgp-base", "localhost/tgp-operator"
BOUND_S = 1200
SITE = Path("opt/tgp/lib", f"python{PYTHON}", "site-packages")  # in the image
MB = 1e6


class ImageFailed(ToolboxError):
    """The text is what the program said that failed."""


@dataclass(frozen=True, slots=True)
class Image:
    root: Path  # its files
    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    user: str
    environment: Mapping[str, str]
    compressed_mb: float
    unpacked_mb: float
    seconds: float  # that building took, when it was built
    of_tree: bool  # whether tgp's code in it is the tree's own

    @property
    def package(self) -> Path:
        """Where tgp's own code is."""
        return self.root / SITE / "tgp"


def main() -> int:
    built = image()
    print(f"{' '.join(built.entrypoint)} {' '.join(built.command)}, as user {built.user}, in {built.root}")
    print(
        f"image compressed_mb={built.compressed_mb:.0f} unpacked_mb={built.unpacked_mb:.0f} seconds={built.seconds:.0f}"
    )
    return 0


def image(say: Say = say_on_stderr, *, any_code: bool = False) -> Image:
    """Built where it is not kept. `any_code`: its tgp may be of another commit, everything else being equal."""
    cache = Cache(cache_home(os.environ), say)
    key, others = _key()
    own = key
    kept = sorted(cache.place(key).parent.glob(f"{others}-*")) if any_code else ()
    if kept and not cache.place(key).is_dir():
        key = kept[0].name
    with cache.alone(key):
        if not cache.place(key).is_dir():
            _build(cache, key, say)
    told = json.loads((cache.place(key) / "image.json").read_text(encoding="utf-8"))
    entrypoint, command = tuple(told.pop("entrypoint")), tuple(told.pop("command"))
    return Image(cache.place(key) / "root", entrypoint, command, **told, of_tree=key == own)


def _key() -> tuple[str, str]:
    """Of this tree's image, and how the keys of those begin that differ in tgp's code alone."""
    digest = hashlib.sha256(repr(RECIPE).encode())
    for path in (ROOT / name for name in COPIED):
        digest.update(path.read_bytes())
    others = f"image-{digest.hexdigest()[:8]}"
    for path in _code():
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return f"{others}-{digest.hexdigest()[:8]}", others


def _code() -> Iterator[Path]:
    for path in sorted((ROOT / "src").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path


def _build(cache: Cache, key: str, say: Say) -> None:
    if os.geteuid() != 0:
        raise ImageFailed("building the image needs root; as another user: docker build")
    say("building the image (about 2 min; once) …")
    began = time.monotonic()
    found = programs(("buildah", "mmdebstrap", "unshare"))
    debian = _base(cache, found["mmdebstrap"])
    with cache.workshop(key) as folder:
        store = _Store(found, folder)
        context = _context(folder / "context")
        store(
            "import", "bud", "--quiet", f"--file={_from_archive(folder, debian)}", f"--tag={BASE}", str(debian.parent)
        )
        store(
            "build",
            "bud",
            "--quiet",
            "--isolation=chroot",
            "--network=host",  # of a network namespace that has none
            f"--build-arg=BASE={BASE}",
            f"--tag={NAME}",
            str(context),
        )
        finished = folder / "finished"
        finished.mkdir()
        _unpacked(store, finished, began)
        store.clear()
        cache.publish(finished, key)


def _base(cache: Cache, mmdebstrap: Path) -> Path:
    """Debian with Python, as an archive: kept apart, because it changes seldom and takes longest."""
    key = f"debian-{hashlib.sha256(repr(RECIPE).encode()).hexdigest()[:8]}"
    with cache.alone(key):
        if not cache.place(key).is_dir():
            with cache.workshop(key) as folder:
                finished = folder / "finished"
                finished.mkdir()
                _run("base", (str(mmdebstrap), *RECIPE, str(finished / "base.tar")))
                cache.publish(finished, key)
    return cache.place(key) / "base.tar"


def _from_archive(folder: Path, archive: Path) -> Path:
    path = folder / "base.dockerfile"
    path.write_text(f"FROM scratch\nADD {archive.name} /\n", encoding="utf-8")
    return path


def _context(folder: Path) -> Path:
    """What a Docker engine would be sent: the files that the Dockerfile copies, and a wheelhouse for its base."""
    for name in COPIED:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    fill(folder / WHEELHOUSE.relative_to(ROOT), PYTHON, platform.machine())
    return folder


@dataclass(frozen=True, slots=True)
class _Store:
    """buildah with storage of its own, in a network namespace without a network."""

    found: Mapping[str, Path]
    folder: Path

    def __call__(self, what: str, *arguments: str) -> str:
        own = (f"--root={self.folder / 'storage'}", f"--runroot={self.folder / 'run'}", "--storage-driver=vfs")
        return _run(what, (str(self.found["unshare"]), "--net", str(self.found["buildah"]), *own, *arguments)).strip()

    def clear(self) -> None:
        self("clear", "umount", "--all")
        self("clear", "rm", "--all")


def _unpacked(store: _Store, into: Path, began: float) -> None:
    archive = into / "image.tar"
    store("pack", "push", "--quiet", NAME, f"oci-archive:{archive}")
    compressed = archive.stat().st_size / MB
    archive.unlink()
    container = store("unpack", "from", NAME)
    mounted = store("unpack", "mount", container)
    _run("unpack", ("cp", "--archive", mounted, str(into / "root")))
    config = json.loads(store("inspect", "inspect", "--type=image", NAME))["OCIv1"]["config"]
    told: dict[str, Any] = {
        "entrypoint": config["Entrypoint"],
        "command": config["Cmd"],
        "user": config["User"],
        "environment": dict(pair.split("=", 1) for pair in config["Env"]),
        "compressed_mb": compressed,
        "unpacked_mb": sum(path.lstat().st_size for path in (into / "root").rglob("*") if not path.is_dir()) / MB,
        "seconds": time.monotonic() - began,
    }
    (into / "image.json").write_text(json.dumps(told), encoding="utf-8")


def _run(what: str, command: tuple[str, ...]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND_S, check=False)
    if done.returncode != 0:
        raise ImageFailed(f"the image could not be built ({what}): {done.stderr.strip()[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
