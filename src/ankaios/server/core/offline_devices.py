"""States of workloads that run with a device that no agent sees: they name the device.

Input: entries of devices before and after a change, and states that agents report. Output: additional information in
the states. Owns the texts about the devices of each workload instance.
"""

from ankaios.common.execution_state import RUNNING_OK
from ankaios.common.state_manipulation import Form
from ankaios.common.workload import InstanceName
from ankaios.server.core.server_state import ServerState


class OfflineDevices:
    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._texts: dict[str, dict[str, str]] = {}  # by workload instance and device

    def device_changed(self, device: str, before: Form, now: Form) -> None:
        """The entry of a device has changed; an empty one does not exist."""
        offline = now and not now.get("attributes", {}).get("online", True)
        text = _offline_text(device, now) if offline else ""
        holders = set(now.get("slotOwners", {}).values())
        for owner in holders.union(before.get("slotOwners", {}).values()):
            texts = self._texts.setdefault(owner, {})
            known = texts.pop(device, "")
            if text and owner in holders:
                texts[device] = text
            if texts.get(device, "") != known:
                self._put(owner)
            if not texts:
                del self._texts[owner]

    def state_seen(self, name: InstanceName) -> None:
        """An agent has reported a state without additional information."""
        if str(name) in self._texts:
            self._put(str(name))

    def _put(self, owner: str) -> None:
        name = InstanceName.parse(owner)
        state = self._state.workload_states.get(name) if name is not None else None
        if name is not None and state is not None and state.state == RUNNING_OK.state:
            self._state.put_states({name: state.because("; ".join(self._texts.get(owner, {}).values()))})


def _offline_text(name: str, device: Form) -> str:
    text = f"its device '{name}' is {'lost' if device.get('lost') else 'offline'}"
    if "offlineSinceMs" not in device:
        return text
    from google.protobuf.timestamp_pb2 import Timestamp  # not needed while all devices are online

    return f"{text} since {Timestamp(seconds=int(device['offlineSinceMs']) // 1000).ToJsonString()}"
