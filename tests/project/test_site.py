"""The documentation site: every page is in its menu, every link leads somewhere, nothing is loaded from elsewhere."""

import re
import tomllib
from html.parser import HTMLParser

import pytest
from ruamel.yaml import YAML

from tgp.adapters.clouds.registry import facts_of
from tgp.api.common import PROVIDERS
from tgp.api.decoding import strict
from tgp.core.classes.semantic_validation import class_problems
from tgp.core.model.offer import BootMode
from tools import docs_site as site
from tools import provider_pages


class Loads(HTMLParser):
    """What a browser would fetch to show the page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(names.get("src") or "")
        elif tag == "link" and names.get("rel") in ("stylesheet", "icon", "preload", "modulepreload"):
            self.found.append(names.get("href") or "")


def in_menu(nav) -> set[str]:
    found = set()
    for entry in nav:
        for target in entry.values():
            found |= in_menu(target) if isinstance(target, list) else {target}
    return found


def test_every_page_is_in_the_menu_once():
    nav = tomllib.loads(site.CONFIG.read_text())["project"]["nav"]
    pages = {path for path in site.pages().values() if path.endswith(".md")} | set(site.MADE)

    assert in_menu(nav) == pages


def test_the_site_builds_without_a_remark_and_loads_nothing_from_elsewhere():
    assert site.main() == 0

    pages = sorted(site.SITE.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        reader = Loads()
        reader.feed(page.read_text(encoding="utf-8"))
        assert not [each for each in reader.found if re.match(r"(https?:)?//", each)], page
        assert 'class="mermaid"' not in page.read_text(encoding="utf-8"), "its program is fetched from another host"
    assert "tgp offers" in (site.SITE / "commands.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](requests.md#phases)", "[a](requests.md#phases)"),
        ("[a](../README.md)", "[a](index.md)"),
        ("[money.md](money.md)", "[Controlling cost](money.md)"),
        ("[`vultr`](../src/tgp/adapters/clouds/vultr/README.md)", "[`vultr`](providers/vultr.md)"),
        ("[port](../src/tgp/ports/cloud.py)", "port"),
        ("[out](https://talos.dev)", "[out](https://talos.dev)"),
        ("```\n[a](nowhere.md)\n```", "```\n[a](nowhere.md)\n```"),
    ],
    ids=["page", "readme", "title", "provider", "source", "elsewhere", "code"],
)
def test_links_lead_to_pages_of_the_site(text, shown):
    assert site.rewritten(text, "docs/market.md", site.pages()) == shown


def test_a_link_that_leads_nowhere_ends_the_build_and_is_named():
    with pytest.raises(site.DeadLink, match=r"docs/market.md: the link to gone.md leads nowhere"):
        site.rewritten("[a](gone.md)", "docs/market.md", site.pages())


def test_a_chart_of_states_is_a_table():
    chart = "```mermaid\nstateDiagram-v2\n    [*] --> Pending: no offer\n    Pending --> Failed\n```"

    shown = site.rewritten(chart, "docs/requests.md", site.pages()).splitlines()
    assert shown[2:] == ["|  | `Pending` | no offer |", "| `Pending` | `Failed` |  |"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_provider_s_page_begins_with_its_verdict_on_talos(provider):
    facts = facts_of(provider)
    text = provider_pages.with_head("# Title\nthe rest", provider)
    before, _, after = text.partition("## The facts behind it")

    assert after.strip() == "the rest"
    assert all(provider_pages.VERDICTS[mode] in before for mode in facts.boot)
    assert not facts.key_variable or f"`{facts.key_variable}`" in before
    assert ("kind: GPUNodeClass" in before) is (facts.boot[0] in (BootMode.NATIVE, BootMode.TAKEOVER))


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_class_on_a_provider_s_page_is_accepted(provider):
    node_class = strict(YAML(typ="safe", pure=True).load(provider_pages.manifest(facts_of(provider))))

    assert class_problems(node_class) == []
