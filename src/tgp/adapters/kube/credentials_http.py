"""An `Http` that adds our credentials, and retries once with newer ones after a 401."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Protocol

from tgp.adapters.kube.credentials import Credential, CredentialSource, NoCredentials
from tgp.ports.http import Call, Http, NeverLeft, Pairs, Reply, Stream

GENERATIONS = 2  # sets of connections kept: those of the certificate in use, and of the one before, still answering


class ClosableHttp(Http, Protocol):
    async def close(self) -> None: ...


class AuthenticatedHttp:
    """Adds the credential to each call. A 401 means that nothing was done, so the call may be sent once more with
    *another* credential, never with the same. Connections follow the client certificate: a new one gets new
    connections.
    """

    def __init__(
        self,
        source: CredentialSource,
        connect: Callable[[bytes, bytes], ClosableHttp],  # with a client certificate and key, perhaps empty
        headers: Pairs = (),
    ) -> None:
        self._source = source
        self._connect = connect
        self._headers = headers
        self._ways: dict[tuple[bytes, bytes], ClosableHttp] = {}  # the newest last

    async def send(self, call: Call) -> Reply:
        credential = await self._credential(call, None)
        way = await self._way(credential)
        reply = await way.send(self._signed(call, credential))
        if reply.status != 401:
            return reply
        fresher = await self._fresher(call, credential)
        if fresher is None:
            return reply
        way = await self._way(fresher)
        return await way.send(self._signed(call, fresher))

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self._streaming(call, idle)

    @asynccontextmanager
    async def _streaming(self, call: Call, idle: timedelta) -> AsyncIterator[Stream]:
        credential = await self._credential(call, None)
        way = await self._way(credential)
        async with way.stream(self._signed(call, credential), idle=idle) as stream:
            fresher = await self._fresher(call, credential) if stream.status == 401 else None
            if fresher is None:
                yield stream
                return
        way = await self._way(fresher)
        async with way.stream(self._signed(call, fresher), idle=idle) as stream:
            yield stream

    async def close(self) -> None:
        ways, self._ways = self._ways, {}
        for way in ways.values():
            await way.close()

    async def _fresher(self, call: Call, refused: Credential) -> Credential | None:
        """Other proof than the one that was refused; None: there is none, and the refusal stands."""
        try:
            found = await self._credential(call, refused)
        except NeverLeft:
            return None
        return None if found == refused else found

    async def _credential(self, call: Call, refused: Credential | None) -> Credential:
        try:
            async with asyncio.timeout(call.timeout.total_seconds()):
                return await (self._source.current() if refused is None else self._source.renew(refused))
        except NoCredentials as error:
            raise NeverLeft(f"{call.method} {call.path} was not sent: {error}") from None
        except TimeoutError:
            raise NeverLeft(f"{call.method} {call.path} was not sent: no credentials in time") from None

    async def _way(self, credential: Credential) -> ClosableHttp:
        proof = (credential.certificate, credential.key)
        way = self._ways.get(proof)
        if way is None:
            way = self._ways[proof] = self._connect(*proof)
            if len(self._ways) > GENERATIONS:
                await self._ways.pop(next(iter(self._ways))).close()
        return way

    def _signed(self, call: Call, credential: Credential) -> Call:
        added = (("Authorization", credential.authorization),) if credential.authorization else ()
        return replace(call, headers=(*call.headers, *self._headers, *added))
