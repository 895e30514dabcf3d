"""The Date header of an answer (RFC 7231), made once a second: a busy server answers thousands of times in one."""

from datetime import datetime
from email.utils import format_datetime


class HttpDate:
    def __init__(self) -> None:
        self._second: tuple[int, ...] = ()
        self._text = ""

    def text(self, now: datetime) -> str:
        second = (now.year, now.month, now.day, now.hour, now.minute, now.second)
        if second != self._second:
            self._second, self._text = second, format_datetime(now.replace(microsecond=0), usegmt=True)
        return self._text
