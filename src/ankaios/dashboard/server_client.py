"""The connection of the dashboard to the Ankaios server: follows the state, and sends the requests of browsers.

Input: connection settings, and requests. Output: the first state and all events through callbacks, responses, or an
error with a text for the page. Owns the connection and opens it again after it is lost.
"""

import asyncio
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from ankaios.common.errors import Unavailable
from ankaios.common.local_user import local_user_name
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb.grpc_api_pb2 import CommanderHello, ToServer
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.middleware.client import ServerConnection, connect
from ankaios.middleware.connecting import AccessRefused, CannotConnect, ConnectionSettings, VersionRefused
from ankaios.middleware.methods import Method

RECONNECT_SECONDS = 0.5
REQUEST_SECONDS = 10.0
MAX_OPEN_REQUESTS = 200
MAX_STREAM_MESSAGES = 1000

log = logging.getLogger(__name__)


class NotAvailable(Unavailable):
    """The request could not be answered; the text states why."""


class ServerClient:
    """Callbacks are called by the task of `run`: `on_state` with the first state of each connection."""

    def __init__(
        self,
        settings: ConnectionSettings,
        on_state: Callable[[base.CompleteState], None],
        on_event: Callable[[base.CompleteStateResponse], None],
        on_lost: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._on_state = on_state
        self._on_event = on_event
        self._on_lost = on_lost
        self._connection: ServerConnection | None = None
        self._waiting: dict[str, asyncio.Queue[base.Response | None]] = {}

    @property
    def url(self) -> str:
        return self._settings.shown_url

    @property
    def has_additions(self) -> bool:
        """Whether the server supports the requests that Eclipse Ankaios does not have."""
        return self._connection is not None and self._connection.accepts_additions

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                async with connect(self._settings, Method.COMMAND, _hello()) as connection:
                    await self._follow(connection)
            except (Unavailable, VersionRefused) as error:
                self._lost(_reason(error))
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _follow(self, connection: ServerConnection) -> None:
        subscription = _new_id()
        wanted = base.CompleteStateRequest(subscribeForEvents=True)
        await connection.send(ToServer(request=base.Request(requestId=subscription, completeStateRequest=wanted)))
        self._connection = connection
        while True:
            response = (await connection.receive()).response
            if response.requestId != subscription:
                self._deliver(response)
            elif response.completeStateResponse.HasField("alteredFields"):
                self._on_event(response.completeStateResponse)
            elif response.HasField("completeStateResponse"):
                self._on_state(response.completeStateResponse.completeState)
            elif response.HasField("error"):
                raise NotAvailable(response.error.message)

    def _deliver(self, response: base.Response) -> None:
        queue = self._waiting.get(response.requestId)
        if queue is not None:
            _put(queue, response)

    def _lost(self, reason: str) -> None:
        self._connection = None
        for queue in self._waiting.values():
            _put(queue, None)
        self._on_lost(reason)

    # --- requests ---

    async def request(self, request: base.Request, seconds: float = REQUEST_SECONDS) -> base.Response:
        """The response, or `NotAvailable` with the text of the error."""
        async with aclosing(self.stream(request, seconds)) as responses:
            async for response in responses:
                return response
        raise NotAvailable("The server did not answer.")

    async def stream(self, request: base.Request, seconds: float | None = None) -> AsyncGenerator[base.Response, None]:
        """All responses to a request; the caller ends it by closing the iterator."""
        if self._connection is None:
            raise NotAvailable("There is no connection to the server.")
        kind = request.WhichOneof("RequestContent") or ""
        number = base.Request.DESCRIPTOR.fields_by_name[kind].number
        if number >= 1000 and not self.has_additions:
            raise NotAvailable("This server does not offer it.")
        if len(self._waiting) >= MAX_OPEN_REQUESTS:
            raise NotAvailable("Too many requests are open, try again later.")
        request.requestId = _new_id()
        queue: asyncio.Queue[base.Response | None] = asyncio.Queue(MAX_STREAM_MESSAGES)
        self._waiting[request.requestId] = queue
        try:
            await self._connection.send(ToServer(request=request))
            while True:
                try:
                    async with asyncio.timeout(seconds):
                        response = await queue.get()
                except TimeoutError:
                    raise NotAvailable(f"The server did not answer within {seconds:g} s.") from None
                if response is None:
                    raise NotAvailable("The connection to the server was lost.")
                if response.HasField("error"):
                    raise NotAvailable(response.error.message)
                yield response
        finally:
            del self._waiting[request.requestId]
            await self._cancel(kind, request.requestId)

    async def _cancel(self, kind: str, request_id: str) -> None:
        """Cancel the request: further responses are not read."""
        if self._connection is None or kind not in ("logsRequest", "recordsRequest"):
            return
        cancel = base.Request(requestId=request_id)
        if kind == "logsRequest":
            cancel.logsCancelRequest.SetInParent()
        else:
            cancel.eventsCancelRequest.SetInParent()
        try:
            await self._connection.send(ToServer(request=cancel))
        except Unavailable:
            return


def _put(queue: asyncio.Queue[base.Response | None], response: base.Response | None) -> None:
    """If the browser does not read its stream, the oldest response is discarded."""
    if queue.full():
        queue.get_nowait()
    queue.put_nowait(response)


def _hello() -> ToServer:
    """The history shows that a change came from the dashboard."""
    user = f"{local_user_name()} (dashboard)"
    return ToServer(commanderHello=CommanderHello(protocolVersion=PROTOCOL_VERSION, user=user))


def _new_id() -> str:
    return os.urandom(16).hex()


def _reason(error: Exception) -> str:
    if isinstance(error, CannotConnect):
        return f"{error} {error.reason}"
    if isinstance(error, AccessRefused):
        return f"The server does not accept this client: {error}"
    return str(error)
