"""Talos's own opinion of machine configs: `judge("1.13").verdicts(questions)`.

One program per release, built from Talos's published Go module and cached as the other tools are.
"""

from tools.judge.bench import Judge, Question, Verdict, Wish, judge, judges

__all__ = ["Judge", "Question", "Verdict", "Wish", "judge", "judges"]
