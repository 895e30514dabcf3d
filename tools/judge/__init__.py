"""Talos's own opinion of machine configs: `judge("1.13").verdicts(questions)`.

One program per release, built from Talos's published Go module and cached as the other tools are.
"""

from tools.judge.bench import ConfigVariant, Judge, Question, Verdict, judge, judges

__all__ = ["ConfigVariant", "Judge", "Question", "Verdict", "judge", "judges"]
