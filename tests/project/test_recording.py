"""Recordings in docs/media: of one machine, which is made again here, and of an installation, made by a bench."""

import re

import pytest

from bench.install import RECORD
from tools.recording import RECORDING, printer_columns, recorded

STORY = (
    "created",
    "Ordering",
    "MachineLaunched",
    "Provisioning",
    "JoinApproved",
    "Registered",
    "Connected",
    "Initialized",
    ": Ready: ",
    "deleted",
    "Deleting",
    "MachineTerminated",
    "No resources",
)


def places(text: str) -> list[int]:
    return [text.index(word) for word in STORY]


def test_a_new_recording_tells_a_machine_from_apply_to_gone():
    text = "\n".join(recorded())

    assert places(text) == sorted(places(text))
    assert " ! " not in text, "nothing in an ordinary life is a warning"
    for step in ("JoinApproved: ", "Registered: ", "Connected: ", "Initialized: ", "Ready: "):
        assert text.count(f"my-first-gpu: {step}") == 1, step


def test_the_checked_in_recording_does_so_too():
    text = RECORDING.read_text(encoding="utf-8")

    assert places(text) == sorted(places(text))


def test_what_kubectl_shows_in_it_are_the_columns_of_today():
    columns = [column["name"].upper() for column in printer_columns() if not column.get("priority")]
    heads = [line.split() for line in RECORDING.read_text(encoding="utf-8").splitlines() if line.startswith("NAME ")]

    assert heads == [["NAME", *columns]]


INSTALLATION = (  # what each Helm's part has, in this order
    "$ helm push tgp-operator-",
    "Pushed: ",
    "$ helm install tgp-operator oci://registry.example/charts/tgp-operator ",
    "Provisioning ",
    "$ helm package deploy/charts/tgp-operator deploy/charts/tgp-crds",
    "$ helm push tgp-crds-",
    "$ helm upgrade --install tgp-crds oci://registry.example/charts/tgp-crds ",
    "$ helm upgrade tgp-operator oci://registry.example/charts/tgp-operator ",
    "my-first-gpu   Ready ",
    "$ helm rollback tgp-operator 1 ",
    "Rollback was a success",
    "$ helm uninstall tgp-operator ",
    "denied request: 1 machine costs $",
    "First terminate what is rented: tgp down.",
    "$ helm rollback tgp-operator 2 ",
    "$ tgp down --yes",
    "Every machine is terminated",
    "$ helm uninstall tgp-operator ",
    'release "tgp-operator" uninstalled',
    "$ helm uninstall tgp-operator ",
    "release: not found",
)


@pytest.mark.parametrize("major", [3, 4])
def test_the_recording_of_an_installation_shows_its_life_with_both_helms(major):
    """It is made on a real control plane, by `python -m bench install --record`."""
    parts = re.split(r"^== Helm (\d+)\S*$", RECORD.read_text(encoding="utf-8"), flags=re.MULTILINE)
    told = dict(zip(parts[1::2], parts[2::2], strict=True))[str(major)]
    place = 0
    for word in INSTALLATION:
        found = told.find(word, place)
        assert found >= 0, f"after {told[max(0, place - 60) : place]!r}: {word}"
        place = found + len(word)


def test_the_recording_of_an_installation_names_no_path_of_the_machine_that_made_it():
    assert re.findall(r"(?:^|[\s'\"=:])(/(?:home|root|tmp|usr|work)/\S*)", RECORD.read_text(encoding="utf-8")) == []
