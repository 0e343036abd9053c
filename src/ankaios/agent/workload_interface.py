"""The control interface of one workload name, if its current instance has one.

Input: specifications that are started, responses of the server. Output: the folder to mount. Owns the control
interface, which the task of the workload opens and closes in the order of its commands.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ankaios.agent.core.health import HealthResult
from ankaios.agent.run_folder import RunFolder
from ankaios.agent.server_link import Outbox
from ankaios.common.pb.ank_base_pb2 import Response
from ankaios.common.supervision import Supervisor
from ankaios.common.workload import WorkloadSpec

if TYPE_CHECKING:
    from ankaios.agent.control_interface import ControlInterface

log = logging.getLogger(__name__)


class WorkloadInterface:
    def __init__(
        self, folder: RunFolder, outbox: Outbox, notified: Callable[[HealthResult], None], tasks: Supervisor
    ) -> None:
        self._folder = folder
        self._outbox = outbox
        self._notified = notified
        self._tasks = tasks
        self._interface: ControlInterface | None = None

    async def open(self, spec: WorkloadSpec) -> Path | None:
        """Return the folder to mount if the workload has access rules."""
        kept = self._interface if self._interface is not None and self._interface.serves(spec) else None
        if kept is not None and kept.is_intact():
            return kept.folder
        if kept is not None:
            log.warning("'%s' replaced FIFOs of its control interface, creating them again", spec.name)
        await self.close()
        if not spec.needs_control_interface:
            return None
        return self._create(spec, clear=kept is not None)

    def _create(self, spec: WorkloadSpec, *, clear: bool) -> Path | None:
        """Return None if it cannot be created. `clear`: remove the old content of the folder first."""
        from ankaios.agent.control_interface import ControlInterface  # loaded late: many agents do not need it

        folder = self._folder.control_interface(spec.instance_name)
        try:
            self._folder.make(spec.instance_name)
            if clear:
                self._folder.remove_control_interface(spec.instance_name)
            self._interface = ControlInterface(spec, folder, self._outbox, self._notified, self._tasks)
        except OSError as error:
            log.warning("'%s' starts without its control interface: %s", spec.name, error)
            return None
        return folder

    async def close(self, *, keep_fifos: bool = False) -> None:
        if self._interface is not None:
            interface, self._interface = self._interface, None
            await interface.close(keep_fifos=keep_fifos)

    def deliver(self, response: Response) -> bool:
        """Return False if the workload has no control interface.

        [impl->swdd~agent-forward-responses-to-control-interface-pipe~1]
        """
        if self._interface is None:
            return False
        self._interface.deliver(response)
        return True

    def repeat_requests(self, since: str) -> None:
        """Send the subscriptions and followed logs of the workload to the next server."""
        if self._interface is not None:
            self._interface.repeat_requests(since)
