"""`python -m tools.recording`: writes docs/media/one-machine.txt, one machine from apply to gone, in virtual time.

The embedded world of `make run`, with somebody in it who applies deploy/examples/request.yaml, looks, and deletes it.
The same run every time, so the text changes only when what it shows does.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tgp.api.resource import GPU_REQUEST
from tgp.app.embedded.rehearsal import Rehearsal
from tgp.surfaces.terminal.lines import Teller

HOUSE = Path(__file__).parents[1]
RECORDING = HOUSE / "docs" / "media" / "one-machine.txt"
MANIFEST = Path("deploy") / "examples" / "request.yaml"
KUBECTL = "kubectl --kubeconfig .tgp/kubeconfig"
BEGINS_AT = 3.0  # minutes into the world: prices were read
STAYS_FOR = 12.0  # minutes after it is ready
STEP = 0.25  # minutes between two looks
LONGEST = 30.0  # minutes for anything
COLUMNS = ("phase", "selectedProvider", "hourlyPrice", "spent", "terminationScheduledAt")
TITLES = ("NAME", "PHASE", "PROVIDER", "HOURLY", "SPENT", "EXPIRES")


class Visitor:
    """Somebody with a second terminal."""

    def __init__(self, rehearsal: Rehearsal) -> None:
        self._rehearsal = rehearsal
        self._people = rehearsal.world.server.backstage
        self._teller = Teller()
        self._manifest: dict[str, Any] = YAML(typ="safe", pure=True).load((HOUSE / MANIFEST).read_text("utf-8"))
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
            self._rehearsal.run(minutes=STEP)
            told = self._teller.tell(self._rehearsal.scene("tgp demo", KUBECTL))
            yield from (line for line in told if self.name in line)
            if until and self.phase() == until:
                return

    def table(self) -> list[str]:
        """As `kubectl get gr` shows it, but for the age."""
        found = self.found()
        if found is None:
            return [f"No resources found in {self._where} namespace."]
        row = (self.name, *(str(found.get("status", {}).get(name, "")) for name in COLUMNS))
        widths = [max(len(title), len(cell)) for title, cell in zip(TITLES, row, strict=True)]
        return [
            "   ".join(f"{cell:<{width}}" for cell, width in zip(line, widths, strict=True)).rstrip()
            for line in (TITLES, row)
        ]


def recorded() -> list[str]:
    with Rehearsal() as rehearsal:
        visitor = Visitor(rehearsal)
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
