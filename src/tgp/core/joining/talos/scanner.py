"""ruamel's scanner with tabs where YAML 1.2 allows them: between tokens, in texts, on blank lines; never to indent."""

from typing import Any

from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.scanner import Scanner

_BREAKS = "\r\n\x85\u2028\u2029"
_ENDS = f"\0{_BREAKS}"


class TabScanner(Scanner):
    def scan_to_next_token(self) -> None:
        """Passes over white space, line breaks and comments."""
        reader = self.reader
        if reader.index == 0 and reader.peek() == "\ufeff":
            reader.forward()
        indenting = reader.column == 0
        while True:
            while (character := reader.peek()) in " \t":
                if character == "\t" and not self.flow_level:
                    self._tab(indenting=indenting)
                reader.forward()
            if reader.peek() == "#":
                while reader.peek() not in _ENDS:
                    reader.forward()
            if not self.scan_line_break():
                return
            indenting = True
            if not self.flow_level:
                self.allow_simple_key = True

    def _tab(self, *, indenting: bool) -> None:
        if indenting and not self._blank():
            message = "a tab where spaces must indent"
            raise MarkedYAMLError(None, None, message, self.reader.get_mark())
        self.allow_simple_key = False  # no mapping can start after it, as it would be indented by the tab

    def _blank(self) -> bool:
        """Whether only white space, or a comment, follows on this line."""
        ahead = 0
        while self.reader.peek(ahead) in " \t":
            ahead += 1
        return self.reader.peek(ahead) in f"#{_ENDS}"

    def scan_plain_spaces(self, indent: Any, start_mark: Any) -> list[str] | None:  # noqa: ARG002 - its signature
        """White space within an unquoted string, which may continue on the next line. None: the document ends here."""
        length = 0
        while self.reader.peek(length) in " \t":
            length += 1
        white = self.reader.prefix(length)
        self.reader.forward(length)
        if self.reader.peek() not in _BREAKS:
            return [white] if white else []
        first = self.scan_line_break()
        self.allow_simple_key = True
        breaks: list[str] = []
        while not self._document_mark():
            character = self.reader.peek()
            if character == " " or (character == "\t" and (self.reader.column >= indent or self._blank())):
                self.reader.forward()
            elif character in _BREAKS:
                breaks.append(self.scan_line_break())
            else:
                return [*([first] if first != "\n" else [] if breaks else [" "]), *breaks]
        return None

    def _document_mark(self) -> bool:
        reader = self.reader
        return reader.column == 0 and reader.prefix(3) in {"---", "..."} and reader.peek(3) in f" \t{_ENDS}"

    def scan_block_scalar_indicators(self, start_mark: Any) -> Any:
        """Between | or > and the end of their line: a sign, a digit, and then white space."""
        chomping: bool | None = None
        increment: int | None = None
        while (character := self.reader.peek()) in "+-123456789":
            if character in "+-" and chomping is None:
                chomping = character == "+"
            elif character not in "+-" and increment is None:
                increment = int(character)
            else:
                break
            self.reader.forward()
        while self.reader.peek() in " \t":
            self.reader.forward()
        if self.reader.peek() not in f"#{_ENDS}":
            message = "expected + or - or a digit from 1 to 9 after | and >"
            raise MarkedYAMLError("while scanning a block scalar", start_mark, message, self.reader.get_mark())
        return chomping, increment
