"""Which pods and namespaces a written selector means."""

from collections.abc import Mapping

from tgp.api.common import LabelSelector
from tgp.core.model.labels import LabelRequirement, Selector, selector


def selector_of(written: LabelSelector) -> Selector:
    rows = written.match_expressions
    return selector(written.match_labels, (LabelRequirement(row.key, row.operator, row.values) for row in rows))


def covers(home: str, several: Selector | None, namespace: str, labels: Mapping[str, str] | None) -> bool:
    """Whether pods of a namespace may belong to a budget of namespace `home`; `labels`: None: it does not exist."""
    return namespace == home if several is None else labels is not None and several.selects(labels)
