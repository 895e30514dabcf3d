"""`make docs`: the documentation as a site in build/site, from the same pages that the repository shows.

Pages of docs/, the README and its sisters, and each provider's own page are copied side by side; links between them
are rewritten, and say a page's title where they said its file. A link to a source file has no page here and becomes
plain text; a link to nothing ends the build. Each provider's page begins with what a user asks first. A browser would
fetch what draws a Mermaid diagram from another host, so that a chart of states becomes a table.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from posixpath import normpath, relpath

from tools import commands, provider_pages, reasons

ROOT = Path(__file__).resolve().parent.parent
SOURCE, SITE = ROOT / "build" / "site-source", ROOT / "build" / "site"
CONFIG = ROOT / "zensical.toml"
SHOWN = ("*.md", "decisions/*.md", "media/*")  # of docs/
TOP = {"README.md": "index.md", "ARCHITECTURE.md": "architecture.md", "DEVELOPMENT.md": "development.md"}
MADE = {"commands.md": commands.markdown, "reasons.md": reasons.markdown}  # from the code
PROVIDERS = "src/tgp/adapters/clouds"
STYLE = "site.css"
CSS = """.md-grid { max-width: 78rem; }
.md-typeset table:not([class]) code { word-break: normal; overflow-wrap: anywhere; }
.md-typeset table:not([class]) th, .md-typeset table:not([class]) td { min-width: 4rem; padding: 0.6em 1em; }
.md-typeset table:not([class]) td:first-child:has(> code:only-child) { min-width: 11rem; }
.md-typeset table:not([class]) td:last-child { min-width: 12rem; }
.md-typeset table:not([class]) thead:not(:has(th:not(:empty))) { display: none; }
@media (max-width: 480px) {
  .md-typeset table:not([class]) th, .md-typeset table:not([class]) td { min-width: 0; padding: 0.5em 0.6em; }
  .md-typeset table:not([class]) td:first-child:has(> code:only-child) { min-width: 5.5rem; }
  .md-typeset table:not([class]) td:last-child { min-width: 7rem; }
}
"""
_FILE = re.compile(r"`?(?:docs/)?[\w-]+\.md`?")  # words that are a file's name
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
_STATES = re.compile(r"^```mermaid\nstateDiagram-v2\n(.*?)^```", re.DOTALL | re.MULTILINE)
_ARROW = re.compile(r"^ +(\S+) --> ([^\s:]+)(?:: (.*))?$", re.MULTILINE)
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
            if _FILE.fullmatch(words):
                words = title(there)
            return f"{mark}[{words}]({relpath(known[there], here)}{'#' + anchor if anchor else ''})"
        if not (ROOT / there).exists():
            raise DeadLink(f"{page}: the link to {target} leads nowhere")
        return words

    text = _STATES.sub(lambda chart: _arrows(chart[1]), text)
    return "".join(part if part.startswith("```") else _LINK.sub(link, part) for part in _FENCED.split(text))


def title(page: str) -> str:
    """Of a page in the repository: its first heading."""
    found = _TITLE.search((ROOT / page).read_text(encoding="utf-8"))
    return found[1] if found else Path(page).stem


def _arrows(chart: str) -> str:
    """A chart of states as a table."""
    rows = [f"| {_state(begin)} | {_state(end)} | {why} |" for begin, end, why in _ARROW.findall(chart)]
    return "\n".join(("| from | to | when |", "|---|---|---|", *rows))


def _state(name: str) -> str:
    return "" if name == "[*]" else f"`{name}`"


def gather() -> None:
    shutil.rmtree(SOURCE, ignore_errors=True)
    known = pages()
    for page, path in known.items():
        target = SOURCE / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if page.endswith(".md"):
            text = rewritten((ROOT / page).read_text(encoding="utf-8"), page, known)
            if path.startswith("providers/"):
                text = provider_pages.with_head(text, target.stem)
            target.write_text(text, encoding="utf-8")
        else:
            shutil.copyfile(ROOT / page, target)
    for made, markdown in MADE.items():
        (SOURCE / made).write_text(markdown(), encoding="utf-8")
    (SOURCE / STYLE).write_text(CSS, encoding="utf-8")


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
