"""Creates the container of an updated workload while its predecessor stops.

Input: the specification that replaces another one. Output: the id of a container that only has to be started. The
module owns the container until it is taken or discarded. It is an optimisation: if it fails, the workload is created as
usual, which reports the failure.
"""

import asyncio
import logging
from collections.abc import Mapping

from ankaios.common.errors import Rejected, Unavailable
from ankaios.common.supervision import internal_error
from ankaios.common.workload import WorkloadSpec
from ankaios.runtimes.runtime_connector import RuntimeConnector, SuccessorConnector

log = logging.getLogger(__name__)


def can_be_prepared(old: WorkloadSpec, new: WorkloadSpec) -> bool:
    """Both exist at the same time, so they need different names, and the new one must not need shared resources."""
    needs_host = bool(new.resources or new.files or new.needs_control_interface)
    return old.runtime == new.runtime and old.instance_name != new.instance_name and not needs_host


class PreparedSuccessor:
    def __init__(self, connectors: Mapping[str, RuntimeConnector]) -> None:
        self._connectors = connectors
        self._prepared: tuple[WorkloadSpec, asyncio.Task[str | None]] | None = None

    def begin(self, old: WorkloadSpec, new: WorkloadSpec) -> None:
        connector: object = self._connectors.get(new.runtime)
        if self._prepared is None and isinstance(connector, SuccessorConnector) and can_be_prepared(old, new):
            name = f"the preparation of workload '{new.name}'"
            self._prepared = new, asyncio.create_task(_prepare(connector, new), name=name)

    async def take(self, spec: WorkloadSpec) -> str | None:
        """Return the container that was created for this specification, if any."""
        if self._prepared is None or self._prepared[0] != spec:
            await self.discard()
            return None
        (_, task), self._prepared = self._prepared, None
        return await task

    async def discard(self) -> None:
        if self._prepared is None:
            return
        (spec, task), self._prepared = self._prepared, None
        container = await task
        try:
            if container is not None:
                await self._connectors[spec.runtime].delete_workload(container)
        except (Rejected, Unavailable) as error:
            log.warning("cannot delete the prepared container of '%s': %s", spec.instance_name, error)

    def cancel(self) -> None:
        """Cancel the preparation when the agent ends; the next agent finds the container."""
        if self._prepared is not None:
            self._prepared[1].cancel()


async def _prepare(connector: SuccessorConnector, spec: WorkloadSpec) -> str | None:
    try:
        return await connector.prepare_workload(spec)
    except (Rejected, Unavailable) as error:
        log.debug("cannot prepare '%s': %s", spec.instance_name, error)
    except Exception as error:
        internal_error(f"the preparation of workload '{spec.name}'", error)
    return None
