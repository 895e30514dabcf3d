"""A value never becomes structure, whatever it holds; and the harness would notice if it did."""

import re
from random import Random

import pytest

from tests.amounts import amount
from tests.core.talos.fuzzing import VALUES_PER_RENDERING, inert_values, ours, structural_changes, template
from tgp.core.joining.talos.stream import read_stream, write_stream

HOSTILE_VALUES = amount(1500, 100000, "TGP_FUZZ")


def test_no_hostile_value_changes_the_structure():
    """TGP_FUZZ=100000 tries so many."""
    renderings = -(-HOSTILE_VALUES // VALUES_PER_RENDERING)

    assert list(structural_changes(ours, renderings)) == []


# ---- renderers as one might write them in a hurry


def replaced(written, values):
    """As early tgp did."""
    return around(written, substituted(written, values))


def quoted_badly(written, values):
    """Quotes are escaped, and nothing else."""
    escaped = {name: '"' + value.replace('"', '\\"') + '"' for name, value in values.items()}
    return around(written, substituted(written, escaped))


def engine(written, values):
    """What was put in is looked at again, as some template engines do."""
    config, *others = [document.data for document in read_stream(ours(written, values))]
    env = config["machine"]["env"]
    for key, value in env.items():
        for name, inner in values.items():
            value = value.replace(f"{{{{.{name}}}}}", inner)  # noqa: PLW2901 - one after the other
        env[key] = value
    return write_stream([config, *others])


def unquoted(written, values):
    """Every string that looks harmless is left without quotes: off, 0600, null."""
    return re.sub(r'^(    \w+: )"([A-Za-z0-9.:-]+)"$', r"\1\2", ours(written, values), flags=re.MULTILINE)


def substituted(written, values):
    for name, value in values.items():
        written = re.sub(rf"\{{\{{ ?\.{name} ?\}}\}}", lambda _, value=value: value, written)
    return written


def around(written, filled):
    """The rest of the config is as ours has it."""
    config, *others = [document.data for document in read_stream(ours(written, inert_values()))]
    del config["machine"]["env"]
    first = write_stream([config]).replace("machine:\n", filled, 1)
    return first + "".join(f"---\n{write_stream([other])}" for other in others)


@pytest.mark.parametrize("broken", [replaced, quoted_badly, engine, unquoted])
def test_the_harness_catches_a_broken_renderer(broken):
    assert next(structural_changes(broken, renderings=100), None) is not None


@pytest.mark.parametrize("broken", [replaced, engine, unquoted])
def test_and_it_is_the_values_that_break_it(broken):
    """With inert ones they render as ours does: they are not caught for being put together differently."""
    written = template(Random(1))
    mine, theirs = ([each.data for each in read_stream(made(written, inert_values()))] for made in (ours, broken))

    assert mine == theirs
