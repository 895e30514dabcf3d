"""Why a program could not be had, told to a person who can do something about it."""

from tools.toolbox.pins import Tool


class ToolboxError(Exception):
    """What went wrong and what to do about it. Its text is all that is printed: no traceback."""


class ToolUnavailable(ToolboxError):
    """One program could not be found or built."""

    def __init__(self, tool: Tool, why: str) -> None:
        super().__init__(
            f"{tool.title} is not available: {why}\nTo supply your own, set {tool.variable}=/path/to/{tool.name}."
        )
        self.tool = tool


class GoUnavailable(ToolboxError):
    """No Go that is new enough, and none could be installed."""
