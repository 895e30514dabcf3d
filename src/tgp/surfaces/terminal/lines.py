"""A scene told in lines, for pipes and logs: only what changed since the last telling."""

from tgp.surfaces.terminal.scene import Happening, Scene, Story, Thing, plain


class Teller:
    def __init__(self) -> None:
        self._told_things: dict[str, Thing] = {}
        self._told_happenings: frozenset[Happening] = frozenset()  # only asked; no older than the scene's own window
        self._told_troubles: frozenset[str] = frozenset()
        self._told_held = ""
        self._told_stories: frozenset[Story] = frozenset()

    def tell(self, scene: Scene) -> list[str]:
        """One line for each new trouble, happening and step of a script, each changed verdict, and for the brake."""
        lines = [
            *self._stories(scene),
            *self._held(scene),
            *self._troubles(scene),
            *self._happenings(scene),
            *self._things(scene),
        ]
        self._told_stories = frozenset(scene.stories)
        self._told_held = scene.held
        self._told_troubles = frozenset(scene.troubles)
        self._told_happenings = frozenset(scene.happenings)
        self._told_things = {thing.label: thing for thing in scene.things}
        return [plain(line) for line in lines]

    def _stories(self, scene: Scene) -> list[str]:
        return [f"{one.at:%H:%M:%S} story: {one.text}" for one in scene.stories if one not in self._told_stories]

    def _held(self, scene: Scene) -> list[str]:
        if scene.held == self._told_held:
            return []
        return [
            f"{scene.now:%H:%M:%SZ} "
            + (f"! held: nothing is bought: {scene.held}" if scene.held else "= held: no more")
        ]

    def _troubles(self, scene: Scene) -> list[str]:
        return [
            f"{scene.now:%H:%M:%SZ} ! {trouble}" for trouble in scene.troubles if trouble not in self._told_troubles
        ]

    def _happenings(self, scene: Scene) -> list[str]:
        return [_happened(one) for one in scene.happenings if one not in self._told_happenings]

    def _things(self, scene: Scene) -> list[str]:
        lines = []
        for thing in scene.things:
            before = self._told_things.get(thing.label)
            if before is None or (before.state, before.reason) != (thing.state, thing.reason):
                lines.append(f"{scene.now:%H:%M:%SZ} = {thing.label}: {_verdict(thing)}")
        now_there = frozenset(thing.label for thing in scene.things)
        lines += [f"{scene.now:%H:%M:%SZ} = {label}: gone" for label in self._told_things if label not in now_there]
        return lines


def _happened(happening: Happening) -> str:
    sign = "!" if happening.warning else "·"
    times = f" (x{happening.times})" if happening.times > 1 else ""
    return f"{happening.at:%H:%M:%SZ} {sign} {happening.about}: {happening.reason}: {happening.message}{times}"


def _verdict(thing: Thing) -> str:
    words = [thing.state, f"({thing.reason})" if thing.reason else ""]
    verdict = " ".join(word for word in words if word)
    return ": ".join(part for part in (verdict, thing.message) if part)
