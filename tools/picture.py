"""`python -m tools.picture`: draws docs/media/terminal.svg from a run of the embedded world, in virtual time.

The same run every time, so the picture changes only when what it shows does. It refers to no font and no host.
"""

import io
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme

from tgp.app.commands.demo import speed_text
from tgp.interfaces.terminal.screen import TerminalScreen
from tgp.interfaces.terminal.snapshot import Snapshot
from tgp.sim.scaled import BEGAN_AGO, FACTOR, WorldSpeed
from tools.demo_simulation import DemoSimulation

PICTURE = Path(__file__).parents[1] / "docs" / "media" / "terminal.svg"
WIDTH, HEIGHT = 124, 38
MINUTES = 11.0  # into the world: a pool was edited into something impossible, and a machine has just lost power
PACE = WorldSpeed(FACTOR, BEGAN_AGO.total_seconds())
FONTS = "ui-monospace, 'DejaVu Sans Mono', 'Liberation Mono', Menlo, Consolas, monospace"
RED, GREEN, YELLOW, BLUE = (240, 113, 120), (152, 205, 121), (229, 192, 105), (97, 160, 240)
MAGENTA, CYAN = (198, 120, 221), (86, 190, 200)
COLOURS = [RED, GREEN, YELLOW, BLUE, MAGENTA, CYAN]
THEME = TerminalTheme(
    (22, 24, 29), (208, 212, 220), [(40, 44, 52), *COLOURS, (190, 196, 206)], [(92, 99, 112), *COLOURS, (255, 255, 255)]
)
FRAME = """<svg class="{unique_id}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>tgp demo in a terminal</title>
<style>
.{unique_id}-matrix {{
  font-family: FONTS; font-size: {char_height}px; line-height: {line_height}px; white-space: pre;
}}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: FONTS; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
""".replace("FONTS", FONTS)


def snapshot() -> Snapshot:
    with DemoSimulation() as simulation:
        simulation.run(minutes=MINUTES)
        return simulation.snapshot(
            "tgp demo  http://127.0.0.1:8001",
            "kubectl --kubeconfig .tgp/kubeconfig",
            speed_text(PACE, PACE.real(MINUTES * 60)),
        )


def drawn(shown: Snapshot) -> str:
    console = Console(
        record=True, width=WIDTH, height=HEIGHT, force_terminal=True, color_system="truecolor", file=io.StringIO()
    )
    console.print(TerminalScreen(shown), height=HEIGHT)
    svg = console.export_svg(title="make run", theme=THEME, code_format=FRAME, unique_id="tgp")
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def main() -> int:
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(drawn(snapshot()), encoding="utf-8")
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1024} KiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
