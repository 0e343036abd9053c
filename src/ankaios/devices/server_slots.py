"""Asks the server for slots of shared devices and waits for its answer.

In: changes of slots. Out: requests to the server, and its answers to who asked. Owned: the requests under way.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count

from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.device_messages import slot_request
from ankaios.devices.core.slot_ledger import SlotChange

ANSWER_SECONDS = 5.0
NO_ANSWER = "the server does not answer, and shared devices are given out by it"


class ServerSlots:
    def __init__(self, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.send: Callable[[grpc.ToServer], None] = lambda message: None
        self._answer_seconds = answer_seconds
        self._numbers = count(1)
        self._waiting: dict[str, asyncio.Future[grpc.SlotResponse]] = {}

    async def ask(self, changes: Sequence[SlotChange]) -> str | None:
        """None if the server granted all of it, else why not.

        If no answer comes the server may still have heard us. It is told to undo it, which it does after whatever it
        did; if the connection is gone, the report at the start of the next one says what is really used.
        """
        request = slot_request(str(next(self._numbers)), changes)
        answer = self._waiting[request.requestId] = asyncio.get_running_loop().create_future()
        try:
            self.send(grpc.ToServer(slotRequest=request))
            async with asyncio.timeout(self._answer_seconds):
                response = await answer
        except BaseException as error:
            self.tell([change.reversed() for change in changes if change.takes])
            if isinstance(error, TimeoutError | ConnectionResetError):
                return NO_ANSWER
            raise
        finally:
            del self._waiting[request.requestId]
        return None if response.granted else response.reason

    def tell(self, changes: Sequence[SlotChange]) -> None:
        """Without waiting: letting go is never refused."""
        if changes:
            self.send(grpc.ToServer(slotRequest=slot_request(str(next(self._numbers)), changes)))

    def answered(self, response: grpc.SlotResponse) -> None:
        waiting = self._waiting.get(response.requestId)
        if waiting is not None and not waiting.done():
            waiting.set_result(response)

    def session_began(self) -> None:
        """No answer to what was asked before will ever come."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(ConnectionResetError())
