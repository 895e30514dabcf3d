"""Whether tgp accepts a manifest, and what has to be left out of it if not."""

from tgp.core.classes.manifest_validation import problems_of
from tgp.core.migration.field_notes import FieldOutcome, ManifestDraft

MOST_ROUNDS = 8  # a field that is left out may uncover the next problem


def leave_out_invalid(draft: ManifestDraft) -> None:
    """Remove every field that is not accepted, with a note for each; without the field it must be valid."""
    for _ in range(MOST_ROUNDS):
        problems = problems_of(draft.manifest)
        if not problems:
            return
        removed = False
        for path, detail in reversed(dict.fromkeys((problem.path, problem.detail) for problem in problems)):
            if path.startswith("spec.") and draft.find(path) is not None:  # the last item of a list goes first
                draft.note(path, FieldOutcome.NOT_CONVERTED, f"{_ended(detail)} It was left out.")
                draft.take(path)
                removed = True
        if not removed:
            break
    for problem in problems_of(draft.manifest):
        where = problem.path or "metadata"
        draft.note(
            where, FieldOutcome.NOT_CONVERTED, f"{_ended(problem.detail)} The object was left out because of it."
        )
    draft.written = False


def _ended(detail: str) -> str:
    return detail if detail.endswith((".", "?")) else f"{detail}."
