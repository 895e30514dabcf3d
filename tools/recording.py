"""`python -m tools.recording`: writes docs/media/one-machine.txt, one machine from apply to gone, in virtual time.

The embedded world of `make run`, with a user who applies deploy/examples/request.yaml, looks, and deletes it.
The same run every time, so the text changes only when what it shows does.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tgp.api.crds import crds
from tgp.api.resource import GPU_REQUEST
from tgp.interfaces.terminal.lines import SnapshotLines
from tgp.sim.apiserver.tables import printer_for
from tools.demo_simulation import DemoSimulation

ROOT = Path(__file__).parents[1]
RECORDING = ROOT / "docs" / "media" / "one-machine.txt"
MANIFEST = Path("deploy") / "examples" / "request.yaml"
KUBECTL = "kubectl --kubeconfig .tgp/kubeconfig"
BEGINS_AT = 3.0  # minutes into the world: prices were read
STAYS_FOR = 12.0  # minutes after it is ready
STEP = 0.25  # minutes between two looks
LONGEST = 30.0  # minutes for anything
KUBECTL_GAP = "   "


class Visitor:
    """A user with a second terminal."""

    def __init__(self, simulation: DemoSimulation) -> None:
        self._simulation = simulation
        self._people = simulation.world.server.local_api
        self._printer = SnapshotLines()
        self._manifest: dict[str, Any] = YAML(typ="safe", pure=True).load((ROOT / MANIFEST).read_text("utf-8"))
        self.name: str = self._manifest["metadata"]["name"]
        self._where: str = self._manifest["metadata"]["namespace"]

    def apply(self) -> None:
        self._people.create(GPU_REQUEST, self._manifest)

    def delete(self) -> None:
        self._people.delete(GPU_REQUEST, self._where, self.name)

    def found(self) -> dict[str, Any] | None:
        return self._people.get(GPU_REQUEST, self._where, self.name)

    def phase(self) -> str:
        found = self.found()
        return str(found.get("status", {}).get("phase", "")) if found is not None else "gone"

    def passes(self, minutes: float, until: str = "") -> Iterator[str]:
        """What the view tells about it meanwhile."""
        for _ in range(int(minutes / STEP)):
            self._simulation.run(minutes=STEP)
            told = self._printer.lines(self._simulation.snapshot("tgp demo", KUBECTL))
            yield from (line for line in told if self.name in line)
            if until and self.phase() == until:
                return

    def table(self) -> list[str]:
        """As `kubectl get gr` shows it: the API server's own rows, with the columns of our definition."""
        found = self.found()
        if found is None:
            return [f"No resources found in {self._where} namespace."]
        printer = printer_for(GPU_REQUEST.group, GPU_REQUEST.kind, printer_columns())
        shown = [number for number, column in enumerate(printer.columns) if not column.priority]
        titles = [printer.columns[number].name.upper() for number in shown]
        cells = printer.cells(found, self._simulation.snapshot("tgp demo", KUBECTL).now)
        row = [str(cells[number] if cells[number] is not None else "") for number in shown]
        widths = [max(len(title), len(cell)) for title, cell in zip(titles, row, strict=True)]
        return [
            KUBECTL_GAP.join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in (titles, row)
        ]


def printer_columns() -> list[dict[str, Any]]:
    definition = next(each for each in crds() if each["spec"]["names"]["kind"] == GPU_REQUEST.kind)
    columns: list[dict[str, Any]] = definition["spec"]["versions"][0]["additionalPrinterColumns"]
    return columns


def recorded() -> list[str]:
    with DemoSimulation() as simulation:
        visitor = Visitor(simulation)
        list(visitor.passes(BEGINS_AT))
        lines = [
            "# `make run` is on in another terminal. Its lines, as `tgp demo --lines` writes them, are indented.",
            "",
        ]
        lines += [f"$ {KUBECTL} apply -f {MANIFEST}", f"gpurequest.tgp.io/{visitor.name} created"]
        visitor.apply()
        lines += _told(visitor.passes(LONGEST, "Ready"))
        lines += [f"$ {KUBECTL} get gr", *visitor.table()]
        lines += _told(visitor.passes(STAYS_FOR))
        lines += [f"$ {KUBECTL} delete gr {visitor.name}", f'gpurequest.tgp.io "{visitor.name}" deleted']
        visitor.delete()
        lines += _told(visitor.passes(LONGEST, "gone"))
        return [*lines, f"$ {KUBECTL} get gr", *visitor.table()]


def _told(lines: Iterator[str]) -> list[str]:
    told = [f"    {line}" for line in lines]
    return ["", *told, ""] if told else [""]


def main() -> int:
    RECORDING.write_text("\n".join(recorded()) + "\n", encoding="utf-8")
    print(f"{RECORDING}: {len(RECORDING.read_text(encoding='utf-8').splitlines())} lines")
    return 0


if __name__ == "__main__":
    sys.exit(main())
