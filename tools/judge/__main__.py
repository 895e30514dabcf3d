"""`python -m tools.judge page` writes docs/talos-judge.md, `keys` prints what they read, `FILE …` judges files."""

import argparse
import sys
from pathlib import Path

from tgp.core.joining.talos.keys import control_plane_kinds, kinds
from tools.judge.bench import Judge, Question, judge, judges
from tools.judge.keytable import known, table
from tools.judge.page import PAGE, page


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.judge", description=__doc__)
    parser.add_argument("what", nargs="+", metavar="page|keys|FILE")
    parser.add_argument("--talos", default="", metavar="1.13", help="only this release (default: one of each minor)")
    parser.add_argument("--mode", default="cloud", choices=("cloud", "metal", "container"))
    asked = parser.parse_args()
    wanted = [judge(asked.talos)] if asked.talos else judges()
    if asked.what == ["page"]:
        PAGE.write_text(page(wanted))
        return 0
    if asked.what == ["keys"]:
        every = sorted({kind for minor in range(10, 15) for kind in (*kinds(minor), *control_plane_kinds(minor))})
        print("\n".join(table(known(wanted, every))))
        return 0
    return max(_judged(one, asked.what, asked.mode) for one in wanted)


def _judged(one: Judge, files: list[str], mode: str) -> int:
    questions = [Question(name, Path(name).read_text(), mode=mode) for name in files]
    verdicts = one.verdicts(questions)
    for verdict in verdicts:
        print(f"{one.version}: {verdict.name}: {verdict.verdict}")
        for sentence in (*verdict.errors, *verdict.warnings):
            print(f"  {sentence}")
    return int(not all(verdict.accepted for verdict in verdicts))


if __name__ == "__main__":
    sys.exit(main())
