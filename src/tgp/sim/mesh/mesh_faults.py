"""What goes wrong at control servers; each can be aimed at the next calls of a verb, or drawn by seed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random


class MeshVerb(StrEnum):
    TOKEN = "token"  # noqa: S105 - the name of a verb
    MINT = "mint"
    LIST = "list"
    KEYS = "keys"
    DELETE = "delete"
    REVOKE = "revoke"
    OTHER = "other"


class MeshFault(StrEnum):
    HANG_UP = "hang-up"  # the connection is dropped before anything happened
    HANG_UP_AFTER = "hang-up-after"  # it happened; the connection drops
    ERROR = "error"  # 5xx before anything happened
    ERROR_AFTER = "error-after"  # it happened; 5xx
    BUSY = "busy"  # 429 with Retry-After
    HTML = "html"  # 200 and a page of a proxy
    LOST_SERVER = "lost-server"  # 404 and a page of a proxy
    EMPTY_BODY = "empty-body"  # 200 and nothing
    GARBAGE = "garbage"  # 200 and JSON of another shape
    TRUNCATED = "truncated"  # 200 and half of the answer
    HUGE = "huge"  # 200 and more than a client reads
    TOKENS_ENDED = "tokens-ended"  # every token given out so far is void from now on
    DELETE_UNKNOWN = "delete-unknown"  # 404 in its own words: it was gone already


ANYTHING = frozenset(MeshVerb)
CHANGES = frozenset({MeshVerb.MINT, MeshVerb.DELETE, MeshVerb.REVOKE})
READS = frozenset({MeshVerb.TOKEN, MeshVerb.MINT, MeshVerb.LIST})  # whose good answers say something
WHERE: Mapping[MeshFault, frozenset[MeshVerb]] = {
    MeshFault.HANG_UP: ANYTHING,
    MeshFault.HANG_UP_AFTER: CHANGES,
    MeshFault.ERROR: ANYTHING,
    MeshFault.ERROR_AFTER: CHANGES,
    MeshFault.BUSY: ANYTHING,
    MeshFault.HTML: READS,
    MeshFault.LOST_SERVER: ANYTHING,
    MeshFault.EMPTY_BODY: READS,
    MeshFault.GARBAGE: READS,
    MeshFault.TRUNCATED: READS,
    MeshFault.HUGE: ANYTHING,
    MeshFault.TOKENS_ENDED: ANYTHING,
    MeshFault.DELETE_UNKNOWN: frozenset({MeshVerb.DELETE, MeshVerb.REVOKE}),
}


@dataclass(slots=True)
class MeshFaults:
    """What befalls the next calls. Aimed ones first, in their order; then by luck."""

    luck: Random
    chances: dict[MeshFault, float] = field(default_factory=dict)  # per call that it can befall
    aimed: list[tuple[MeshFault, MeshVerb]] = field(default_factory=list)
    seen: dict[MeshFault, int] = field(default_factory=dict)  # how often each happened

    def aim(self, mesh_fault: MeshFault, verb: MeshVerb, times: int = 1) -> None:
        assert verb in WHERE[mesh_fault], f"{mesh_fault} does not befall {verb}"
        self.aimed.extend([(mesh_fault, verb)] * times)

    def calm(self) -> None:
        self.aimed.clear()
        self.chances.clear()

    def draw(self, verb: MeshVerb) -> MeshFault | None:
        found = self._aimed_at(verb) or self._by_luck(verb)
        if found is not None:
            self.seen[found] = self.seen.get(found, 0) + 1
        return found

    def _aimed_at(self, verb: MeshVerb) -> MeshFault | None:
        for place, (mesh_fault, wanted) in enumerate(self.aimed):
            if wanted is verb:
                del self.aimed[place]
                return mesh_fault
        return None

    def _by_luck(self, verb: MeshVerb) -> MeshFault | None:
        for mesh_fault in MeshFault:
            chance = self.chances.get(mesh_fault, 0.0)
            if chance and verb in WHERE[mesh_fault] and self.luck.random() < chance:
                return mesh_fault
        return None
