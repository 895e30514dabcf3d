"""Which pods and namespaces a written selector means."""

from tgp.api.common import LabelSelector
from tgp.core.model.labels import LabelRequirement, Selector, selector


def selector_of(written: LabelSelector) -> Selector:
    rows = written.match_expressions
    return selector(written.match_labels, (LabelRequirement(row.key, row.operator, row.values) for row in rows))
