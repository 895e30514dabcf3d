"""`python -m tools.toolbox [--judges] [--mesh] [--oldest] [NAME …]`: build what is missing, print where it is."""

import argparse
import sys

from tools.toolbox.find import find_all
from tools.toolbox.pins import EVERYDAY, JUDGES, MESH, OLDEST_KUBE_APISERVER, Tool
from tools.toolbox.trouble import ToolboxError

INTERRUPTED = 130  # what shells answer for a program ended by Ctrl-C


def main() -> int:
    names = sorted({tool.name for tool in (*EVERYDAY, *MESH, *JUDGES)})
    parser = argparse.ArgumentParser(
        prog="python -m tools.toolbox", description="Build what is missing, print where everything is."
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"only these: {', '.join(names)} (default: all of a control plane)"
    )
    parser.add_argument("--judges", action="store_true", help="also Talos's own validators")
    parser.add_argument("--mesh", action="store_true", help="also what a real mesh is made of")
    parser.add_argument(
        "--oldest", action="store_true", help=f"also {OLDEST_KUBE_APISERVER.title}, the oldest supported"
    )
    asked = parser.parse_args()
    if unknown := [name for name in asked.names if name not in names]:
        parser.error(f"there is no {', '.join(unknown)}; choose from {', '.join(names)}")
    if asked.names:
        wanted = [tool for tool in (*EVERYDAY, *MESH, *JUDGES) if tool.name in asked.names]
    else:
        wanted = [*EVERYDAY, *(MESH if asked.mesh else ()), *(JUDGES if asked.judges else ())]
    if asked.oldest:
        wanted.append(OLDEST_KUBE_APISERVER)
    return _find_and_print(wanted)


def _find_and_print(wanted: list[Tool]) -> int:
    try:
        found = find_all(wanted)
    except ToolboxError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept, and the rest goes on from here next time", file=sys.stderr)
        return INTERRUPTED
    width = max(len(tool.name) for tool in found)
    for tool, path in found.items():
        print(f"{tool.name:<{width}}  {tool.version:<14}  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
