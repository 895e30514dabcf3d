"""`make docs`: the documentation as a site in build/site, from the same pages that the repository shows.

Pages of docs/, the README and its sisters, and each provider's own page are copied side by side; links between them
are rewritten. A link to a source file has no page here and becomes plain text; a link to nothing ends the build.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from posixpath import normpath, relpath

from tools import commands

ROOT = Path(__file__).resolve().parent.parent
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
CONFIG = ROOT / "zensical.toml"
SHOWN = ("*.md", "decisions/*.md", "media/*")  # of docs/
TOP = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "DEVELOPMENT.md": "development.md"}
PROVIDERS = "src/tgp/adapters/clouds"
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCED = re.compile(r"(^```.*?^```)", re.DOTALL | re.MULTILINE)


class DeadLink(Exception):
    """The text names page and link."""


def pages() -> dict[str, str]:
    """Path in the repository → path in the site."""
    found = {**TOP, "SECURITY.md": "reporting.md"}
    for pattern in SHOWN:
        found |= {
            path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "docs").as_posix()
            for path in sorted((ROOT / "docs").glob(pattern))
        }
    found |= {
        path.relative_to(ROOT).as_posix(): f"providers/{path.parent.name}.md"
        for path in sorted((ROOT / PROVIDERS).glob("*/README.md"))
    }
    found |= {
        path.relative_to(ROOT).as_posix(): path.relative_to(ROOT / "deploy").as_posix()
        for path in sorted((ROOT / "deploy" / "examples").rglob("*.yaml"))
    }
    return found


def rewritten(text: str, page: str, known: dict[str, str]) -> str:
    """The page with its links as they are in the site. `page`: its path in the repository."""

    def link(match: re.Match[str]) -> str:
        mark, words, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match.group()
        path, _, anchor = target.partition("#")
        there = normpath(f"{Path(page).parent.as_posix()}/{path}")
        if there in known:
            here = Path(known[page]).parent.as_posix()
            return f"{mark}[{words}]({relpath(known[there], here)}{'#' + anchor if anchor else ''})"
        if not (ROOT / there).exists():
            raise DeadLink(f"{page}: the link to {target} leads nowhere")
        return words

    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in _FENCED.split(text))


def gather() -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    known = pages()
    for page, path in known.items():
        target = SOURCE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if page.endswith(".md"):
            target.write_text(rewritten((ROOT / page).read_text(encoding="utf-8"), page, known), encoding="utf-8")
        else:
            shutil.copyfile(ROOT / page, target)
    (SOURCE / "commands.md").write_text(commands.markdown(), encoding="utf-8")


def main() -> int:
    try:
        gather()
    except DeadLink as error:
        print(f"✗ {error}", file=sys.stderr)
        return 1
    shutil.rmtree(SITE, ignore_errors=True)
    built = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict", "--clean", "--config-file", CONFIG],
        cwd=ROOT,
        check=False,
    )
    if built.returncode == 0:
        print(f"✓ {len(list(SITE.rglob('*.html')))} pages: open build/site/index.html")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
