"""Everything about one provider stands in its folder: elsewhere in the package its name is not even written."""

import ast
import functools
import re
from pathlib import Path

import pytest

from tgp.api.common import DEFAULT_KEYS, OWNED_PROVIDER

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tgp"
NAMES = re.compile(rf"\b(?:{'|'.join((*DEFAULT_KEYS, 'lambda'))})\b", re.IGNORECASE)  # webhook and simulated are words
KEYWORD = re.compile(r"\blambda\b(?! labs)")  # Python's own
APART = {
    "api/common.py": "the contract with users: the names that classes use, and the names of keys in Secrets",
    "api/nodeclass.py": "the contract with users: which setting belongs to whom, and which are required",
    "adapters/kube/events.py": "how keys of several vendors begin, so that no Event shows one",
}


OWNED_APART = {
    "core/migration/chart_values.py": "an admission webhook, and its chart value",
    "sim/apiserver/api_faults.py": "an admission webhook",
    "adapters/clouds/webhook/facts.py": "its title for people",
}


def own_folder(path: str) -> bool:
    """A provider's adapter or its simulator."""
    return re.match(rf"(?:adapters|sim)/clouds/(?:{'|'.join(DEFAULT_KEYS)})(?:/|\.py$)", path) is not None


@functools.cache
def mentions() -> dict[str, list[str]]:
    """Lines of Python outside the providers' folders that name one, by file. Dated tables (core/data) are data."""
    found: dict[str, list[str]] = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        path = file.relative_to(PACKAGE).as_posix()
        if not own_folder(path):
            lines = file.read_text(encoding="utf-8").splitlines()
            if named := [line.strip() for line in lines if NAMES.search(KEYWORD.sub("", line))]:
                found[path] = named
    return found


def test_no_code_outside_its_folder_names_a_provider():
    assert {path: lines for path, lines in mentions().items() if path not in APART} == {}


@pytest.mark.parametrize("path", APART)
def test_an_exception_is_still_needed(path: str):
    assert path in mentions(), APART[path]


def test_the_provider_of_owned_machines_is_named_once():
    """`webhook` is a word, too, so only a whole text counts. Everything else uses OWNED_PROVIDER."""
    found = {
        file.relative_to(PACKAGE).as_posix()
        for file in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and node.value == OWNED_PROVIDER
    }
    assert found == {"api/common.py", *OWNED_APART}
