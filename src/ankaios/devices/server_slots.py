"""Asks the server for slots of shared devices and waits for its answer.

In: changes of slots. Out: requests to the server, and its answers to who asked. Owned: the requests under way. Without
a session nobody is asked, so nobody waits for an answer that cannot come.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count

from ankaios.common.errors import Unavailable
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.device_messages import slot_request
from ankaios.devices.core.node_devices import NOT_CONNECTED
from ankaios.devices.core.slot_ledger import SlotChange, SlotConflict

ANSWER_SECONDS = 5.0
NO_ANSWER = "the server, which accounts for shared devices, does not answer"


class ServerAway(Unavailable):
    """Nobody can say whether the slots are free: to ask again at once is of no use."""


class ServerSlots:
    def __init__(self, send: Callable[[grpc.ToServer], None], answer_seconds: float = ANSWER_SECONDS) -> None:
        self._send = send
        self._answer_seconds = answer_seconds
        self._connected = False
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[grpc.SlotResponse]] = {}

    async def ask(self, changes: Sequence[SlotChange]) -> None:
        """Returns if the server granted all of it; raises `SlotConflict` if it refused, else `ServerAway`.

        If no answer comes the server may still have heard us. It is told to undo it, which it does after whatever it
        did; if the connection is gone, the report at the start of the next one says what is really used.
        """
        if not self._connected:
            raise ServerAway(NOT_CONNECTED)
        request = slot_request(str(next(self._numbers)), changes)
        answer = self._waiting[request.requestId] = asyncio.get_running_loop().create_future()
        try:
            self._send(grpc.ToServer(slotRequest=request))
            async with asyncio.timeout(self._answer_seconds):
                response = await answer
        except BaseException as error:
            self.tell([change.reversed() for change in changes if change.takes])
            if isinstance(error, TimeoutError):
                raise ServerAway(NO_ANSWER) from error
            raise
        finally:
            del self._waiting[request.requestId]
        if not response.granted:
            raise SlotConflict(response.reason)

    def tell(self, changes: Sequence[SlotChange]) -> None:
        """Without waiting: letting go is never refused."""
        if changes:
            self._send(grpc.ToServer(slotRequest=slot_request(str(next(self._numbers)), changes)))

    def answered(self, response: grpc.SlotResponse) -> None:
        waiting = self._waiting.get(response.requestId)
        if waiting is not None and not waiting.done():
            waiting.set_result(response)

    def session_began(self) -> None:
        self._drop_questions()
        self._connected = True

    def session_ended(self) -> None:
        self._drop_questions()
        self._connected = False

    def _drop_questions(self) -> None:
        """No answer to what was asked before will ever come."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ServerAway(NOT_CONNECTED))
