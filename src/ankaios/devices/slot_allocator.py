"""Claims and releases slots: slots of local devices in the ledger alone, slots of shared devices with the server.

Input: changes of slots. Output: an updated ledger, requests to the server, and the changes to report. Owns the requests
that the server has not answered yet. Without a session the server is not asked, so no claim waits for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count

from ankaios.common.errors import Unavailable
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.core.device_messages import slot_request
from ankaios.devices.core.node_devices import NOT_CONNECTED, DeviceChanges, NodeDevices
from ankaios.devices.core.slot_ledger import Claim, Slot, SlotChange, SlotConflict

ANSWER_SECONDS = 5.0
NO_ANSWER = "the server, which accounts for shared devices, does not answer"


class ServerUnreachable(Unavailable):
    """It is not known whether the slots are free: an immediate retry is useless."""


class SlotAllocator:
    """`changed` receives what a claim or release changed."""

    def __init__(
        self,
        node: NodeDevices,
        send: Callable[[grpc.ToServer], None],
        changed: Callable[[DeviceChanges], None],
        answer_seconds: float = ANSWER_SECONDS,
    ) -> None:
        self._node = node
        self._send = send
        self._changed = changed
        self._answer_seconds = answer_seconds
        self._numbers = count(1)
        self._unanswered: dict[str, asyncio.Future[grpc.SlotResponse]] = {}

    async def claim(self, changes: Sequence[SlotChange]) -> None:
        """Claim all slots or none. Raises `SlotConflict` if one is not free, `ServerUnreachable` if that is unknown."""
        new, requested = self._node.shared.begin(changes)
        try:
            if requested:
                await self._request_and_finish(new, requested)
        finally:
            # Also after a failure: other claims may have been denied because of slots that were taken for a moment.
            self._report(change.slot for change in new)

    async def _request_and_finish(self, new: Sequence[SlotChange], requested: Sequence[SlotChange]) -> None:
        granted = False
        try:
            await self._request(requested)
            granted = True
        finally:
            is_claimed = self._node.shared.finish(new, granted)
        if not is_claimed:
            self._send_changes([change.reversed() for change in requested])
            slot = requested[0].slot
            raise SlotConflict(f"cannot claim slot '{slot}': the device disappeared during the request to the server")

    async def _request(self, changes: Sequence[SlotChange]) -> None:
        """Ask the server, and return if it granted all changes.

        If no answer arrives, the server may still have received the request. It is asked to undo it, which it does
        after the request; if the connection is lost, the report at the start of the next session corrects it.
        """
        if not self._node.shared.connected:
            raise ServerUnreachable(NOT_CONNECTED)
        request = slot_request(str(next(self._numbers)), changes)
        answer = self._unanswered[request.requestId] = asyncio.get_running_loop().create_future()
        try:
            self._send(grpc.ToServer(slotRequest=request))
            async with asyncio.timeout(self._answer_seconds):
                response = await answer
        except BaseException as error:
            self._send_changes([change.reversed() for change in changes])
            if isinstance(error, TimeoutError):
                raise ServerUnreachable(NO_ANSWER) from error
            raise
        finally:
            del self._unanswered[request.requestId]
        if not response.granted:
            raise SlotConflict(response.reason)

    def release(self, claims: Mapping[Slot, Claim]) -> None:
        """End the claims; a release is never refused."""
        self._send_changes(self._node.shared.release(claims))
        self._report(claims)

    def _send_changes(self, changes: Sequence[SlotChange]) -> None:
        if changes:
            self._send(grpc.ToServer(slotRequest=slot_request(str(next(self._numbers)), changes)))

    def _report(self, slots: Iterable[Slot]) -> None:
        if changes := DeviceChanges.of_slots(slots):
            self._changed(changes)

    # --- the server ---

    def answered(self, response: grpc.SlotResponse) -> None:
        answer = self._unanswered.get(response.requestId)
        if answer is not None and not answer.done():
            answer.set_result(response)

    def session_changed(self) -> None:
        """A session began or ended. Requests of an earlier session are never answered."""
        for answer in self._unanswered.values():
            if not answer.done():
                answer.set_exception(ServerUnreachable(NOT_CONNECTED))
