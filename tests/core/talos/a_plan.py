"""Plans and join values that state only what matters to a test, and the templates that early users have."""

import re
from dataclasses import replace
from pathlib import Path

from ruamel.yaml import YAML

from tgp.core.joining.talos.placeholder_values import placeholder_join, placeholder_plan
from tgp.core.model.mesh import Backend
from tgp.core.model.talos import TalosVersion, read_version

VERSIONS = ("v1.10.5", "v1.11.5", "v1.12.5", "v1.13.0", "v1.14.0")
_EARLY = Path(__file__).parents[3] / "deploy" / "examples" / "seeds" / "readme-gpunodeclass.yaml"


def version(text: str) -> TalosVersion:
    found = read_version(text)
    assert found is not None
    return found


def a_plan(talos="v1.13.0", backend=Backend.TAILSCALE, **changes):
    return replace(placeholder_plan(version(talos), backend), **changes)


def a_join(**changes):
    return replace(placeholder_join(), **changes)


def early_template() -> str:
    """As the first README had it."""
    return YAML(typ="safe").load(_EARLY)["spec"]["talosConfig"]["machineConfigTemplate"]


def early_cloud_config() -> str:
    """As the plan for moving to Tailscale had it: Ubuntu's, with Talos's keys behind it."""
    return (Path(__file__).parent / "early_cloud_config.yaml").read_text()


def line_of(text: str, pattern: str) -> int:
    found = re.search(pattern, text, re.MULTILINE)
    assert found is not None, pattern
    return text.count("\n", 0, found.start()) + 1
