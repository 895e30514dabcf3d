"""docs/providers.md says what the adapters' facts say: each table is read, and compared cell by cell."""

import json
import re
import tomllib
from datetime import timedelta
from pathlib import Path

import pytest

from tests.contracts.clouds.everything import all_providers
from tests.contracts.clouds.provider import Provider
from tgp.adapters.clouds.registry import facts_of
from tgp.api.common import PROVIDERS
from tgp.core.model.provider_facts import CloudFacts, Rate

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
ADAPTERS = ROOT / "src" / "tgp" / "adapters" / "clouds"
UNJUDGED = "not independently judged"


def tables() -> dict[str, dict[str, dict[str, str]]]:
    """Heading of the section → provider → column → cell."""
    found = {}
    for section in re.split(r"^## ", PAGE, flags=re.MULTILINE)[1:]:
        lines = [line for line in section.splitlines() if line.startswith("|")]
        if lines and lines[0].startswith("| provider "):
            heads, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
            found[section.splitlines()[0]] = {
                re.sub(r"^.*`(\w+)`.*$", r"\1", row[0]): dict(zip(heads, row, strict=True)) for row in rows
            }
    return found


def priced_on(provider: str) -> str:
    """The date of the adapter's own price table; empty: it has none."""
    path = ADAPTERS / provider / "prices.toml"
    if not path.is_file():
        return ""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    return str(table.get("priced_on") or table["dated"])


def at_a_glance(facts: CloudFacts) -> dict[str, str]:
    date = priced_on(facts.provider)
    unpriced = f"table of {date}" if date else "the class's"
    return {
        "provider": f"{facts.title} `{facts.provider}`",
        "API": f"`{facts.endpoint}`" if facts.endpoint else "yours",
        "starts as": ", ".join(facts.boot),
        "spot": "yes" if facts.sells_spot else "no",
        "prices": "live" if _tested(facts).tells_prices else unpriced,
        "key": f"`{facts.key_variable}`" if facts.key_variable else "none",
        "without a key": _without(facts),
    }


def relied_on(facts: CloudFacts) -> dict[str, str]:
    return {
        "provider": f"`{facts.provider}`",
        "listing lag": _span(facts.listing_lag),
        "billed price": "reported" if facts.tells_billed_price else "not reported",
        "ends a machine by itself": f"within {facts.longest_run.days} days" if facts.longest_run else "no",
        "calls at most": _rates(facts),
        "offers asked": f"every {_span(facts.refresh_every)}"
        + (f", idle {_span(facts.idle_refresh_every)}" if facts.idle_refresh_every else ""),
        "user data": _size(facts.user_data_bytes),
    }


def judges(facts: CloudFacts) -> dict[str, str]:
    name = _tested(facts).judge
    judge = f"`{name}`" if name else UNJUDGED
    return {"provider": f"[`{facts.provider}`](../src/tgp/adapters/clouds/{facts.provider}/README.md)", "judge": judge}


SECTIONS = {
    "At a glance": at_a_glance,
    "What a purchase relies on": relied_on,
    "How the simulators were tested": judges,
}


def _tested(facts: CloudFacts) -> Provider:
    """The same provider as the contract suite knows it."""
    return next(each for each in all_providers() if each.name == facts.provider)


def _without(facts: CloudFacts) -> str:
    if not facts.key_variable:
        return "all of it"
    return "prices" if facts.public_offers else "nothing"


def _span(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{seconds / 60:g} min" if seconds > 60 else f"{seconds:g} s"


def _rates(facts: CloudFacts) -> str:
    return "; ".join(f"{verb} {_rate(rate)}".strip() for verb, rate in facts.rates.items()) or "no limit"


def _rate(rate: Rate) -> str:
    seconds = rate.per.total_seconds()
    per = {1: "s", 60: "min"}.get(seconds, f"{seconds:g} s")
    return f"{rate.calls}/{per}" + (f", {rate.burst} at once" if rate.burst > 1 else "")


def _size(size: int) -> str:
    if not size:
        return "none"
    return f"{size // 1024} KiB" if size % 1024 == 0 else f"{size:,} bytes"


@pytest.mark.parametrize("section", SECTIONS)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_page_says_what_the_facts_say(provider, section):
    """A changed fact fails here with the cell of the page that contradicts it."""
    row = tables()[section][provider]
    wanted = SECTIONS[section](facts_of(provider))

    assert {column: row[column] for column in wanted} == wanted


@pytest.mark.parametrize("section", SECTIONS)
def test_every_provider_has_a_row_and_no_other_row_exists(section):
    rows = tables()[section]

    assert list(rows) == list(PROVIDERS)
    assert all(cell for row in rows.values() for cell in row.values()), "an empty cell has no information"


def test_a_provider_s_own_page_agrees_about_its_judge_and_its_lag():
    for provider in PROVIDERS:
        facts, readme = facts_of(provider), (ADAPTERS / provider / "README.md").read_text(encoding="utf-8")
        assert f"{facts.listing_lag.total_seconds():g}" in readme, provider
        if judge := _tested(facts).judge:
            assert judge.partition(" ")[0] in readme, provider


def test_a_judge_s_release_is_the_one_that_is_installed():
    """The client that the page names is the one in the lock that the tests install."""
    for provider in PROVIDERS:
        if judge := _tested(facts_of(provider)).judge:
            name, _, release = judge.partition(" ")
            if name.startswith("@"):
                locks = (ROOT / "requirements" / "clients" / "npm").glob("*/package-lock.json")
                packages = [json.loads(lock.read_text(encoding="utf-8"))["packages"] for lock in locks]
                assert release in [held.get(f"node_modules/{name}", {}).get("version") for held in packages], provider
                continue
            lock = (ROOT / "requirements" / "clients" / f"{name}.txt").read_text(encoding="utf-8")
            assert re.search(rf"^{re.escape(name)}=={re.escape(release)}\b", lock, re.MULTILINE), provider
