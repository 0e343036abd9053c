"""The cluster as the dashboard sees it: one connection to the server, one form of its state, all open pages.

Input: state and events of the server, open pages. Output: snapshots and patches for the pages. Owns the form, the log
of changes and the newest resource usage, which is requested only while a page is open.
"""

import asyncio
from collections.abc import Callable
from time import time
from typing import Any

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.dashboard.browser_hub import BrowserHub, encode_event
from ankaios.dashboard.change_log import ChangeLog
from ankaios.dashboard.cluster_form import ClusterForm
from ankaios.dashboard.server_client import NotAvailable, ServerClient
from ankaios.middleware.connecting import ConnectionSettings

USAGE_SECONDS = 2.0
MEASURED_SECONDS = 6


def _now_ms() -> int:
    return int(time() * 1000)


class LiveCluster:
    def __init__(self, settings: ConnectionSettings, now_ms: Callable[[], int] = _now_ms) -> None:
        self._now_ms = now_ms
        self.client = ServerClient(settings, self._state, self._event, self._lost)
        self.cluster = ClusterForm(base.CompleteState())
        self.log = ChangeLog()
        self.usage: dict[str, dict[str, int]] = {}
        self.connected = False
        self.fault = "The dashboard is connecting to the server."
        self.hub = BrowserHub(self._snapshot)

    # --- from the server ---

    def _state(self, state: base.CompleteState) -> None:
        self.cluster = ClusterForm(state)
        self.connected, self.fault = True, ""
        self.hub.resync()

    def _event(self, event: base.CompleteStateResponse) -> None:
        """The entries before the event are needed to describe the changes."""
        names = self.cluster.names_changed_by(event)
        before = self.cluster.patch(names)
        self.cluster.apply(event)
        after = self.cluster.patch(names)
        changes = self.log.compare(before, after, self._now_ms())
        self.hub.patch(after, changes)

    def _lost(self, reason: str) -> None:
        if self.connected or reason != self.fault:
            self.connected, self.fault = False, reason
            self.hub.send("connection", self._connection())

    # --- to the pages ---

    def _connection(self) -> dict[str, Any]:
        return {"connected": self.connected, "fault": self.fault, "server": self.client.url}

    def _snapshot(self) -> bytes:
        data = {
            **self.cluster.snapshot(),
            "connection": self._connection(),
            "changes": list(self.log.changes),
            "usage": self.usage,
            "now": self._now_ms(),
        }
        return encode_event("snapshot", data)

    async def measure(self) -> None:
        """Request resource usage again and again while a page is open."""
        while True:
            if not self.hub.has_pages:
                self.hub.page_opened.clear()
                await self.hub.page_opened.wait()
            if self.connected and self.client.has_additions:
                await self._measure_once()
            await asyncio.sleep(USAGE_SECONDS)

    async def _measure_once(self) -> None:
        try:
            request = base.Request(usageRequest=base.UsageRequest(seconds=MEASURED_SECONDS))
            response = await self.client.request(request)
        except NotAvailable:
            return
        self.usage = {
            f"{entry.instanceName.workloadName}.{entry.instanceName.id}.{entry.instanceName.agentName}": {
                "cpu": entry.usage.cpuMillis,
                "memory": entry.usage.memoryBytes,
                "uptime": entry.usage.uptimeSeconds,
            }
            for entry in response.usageResponse.workloads
        }
        self.hub.send("usage", self.usage)
