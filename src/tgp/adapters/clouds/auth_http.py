"""An `Http` that adds headers with a key in them to every call. The headers are never printed."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta

from tgp.ports.http import Call, Http, Pairs, Reply, Stream


class KeyedHttp:
    def __init__(self, http: Http, headers: Pairs) -> None:
        self._http = http
        self._headers = headers

    async def send(self, call: Call) -> Reply:
        return await self._http.send(self._keyed(call))

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self._http.stream(self._keyed(call), idle=idle)

    def _keyed(self, call: Call) -> Call:
        return replace(call, headers=(*self._headers, *call.headers))
