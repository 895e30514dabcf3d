"""docs/templates.md says what the code says: every variable, and an example that works."""

import re
from pathlib import Path

from tests.core.talos.a_plan import version
from tgp.core.joining.talos.render import inspect
from tgp.core.joining.talos.variables import ALIASES, VARIABLES

PAGE = (Path(__file__).parents[2] / "docs" / "templates.md").read_text()


def test_every_variable_is_explained_and_no_other():
    explained = re.findall(r"^\| `([A-Z]\w+)` \|", PAGE, re.MULTILINE)

    assert [name for name in VARIABLES if name not in ALIASES] == explained
    for alias, name in ALIASES.items():
        (row,) = (line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |"))
        assert f"`{alias}` means the same" in row


def test_its_example_needs_no_conversion_and_has_no_finding():
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)

    for talos in ("v1.10.5", "v1.12.5", "v1.13.0", "v1.14.0"):
        assert inspect(example, version(talos)) == ((), ())
