"""docs/media/one-machine.txt can be made again, and tells the whole life of a machine."""

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
