"""Says once of each annotation about disruption that cannot be read that it is ignored."""

from collections.abc import Mapping

from tgp.api.resource import NODE, POD
from tgp.core.disruption import restart_cost
from tgp.core.model.facts import AnnotationIgnored, FactSubject, subject_of
from tgp.core.model.record import uid_text
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.protection import unreadable
from tgp.ports.journal import Journal

MOST_TOLD = 10_000  # annotations


class IgnoredAnnotations:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._told: dict[tuple[str, str], None] = {}  # (uid, text)

    def note(self, observation: RequestObservation) -> None:
        """On the request, its Node and the pods that run there."""
        record, node = observation.record, observation.node.node
        self._note(subject_of(record), record.annotations)
        if node is not None:
            self._note(FactSubject(NODE, node.key, uid_text(node.uid)), node.annotations)
        for pod in observation.node.pods:
            if pod.annotations:
                self._note(FactSubject(POD, pod.key, uid_text(pod.uid)), pod.annotations)

    def _note(self, subject: FactSubject, annotations: Mapping[str, str]) -> None:
        for message in (*unreadable(annotations), *restart_cost.unreadable(annotations)):
            if (subject.uid, message) not in self._told:
                self._told[subject.uid, message] = None
                self._journal.note(AnnotationIgnored(subject, message))
        while len(self._told) > MOST_TOLD:
            del self._told[next(iter(self._told))]
