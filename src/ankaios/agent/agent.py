"""Puts an agent together and runs it until it is told to end.

Comes in: settings and runtimes. Owned here: the task group in which everything lives. When the agent ends, workloads go
on, and FIFOs and files stay for the next agent.
"""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from ankaios.agent.agent_devices import AgentDevices
from ankaios.agent.agent_manager import AgentManager
from ankaios.agent.device_joint import DeviceService, NoDevices
from ankaios.agent.load_reporter import LoadReporter
from ankaios.agent.resource_monitor import ResourceMonitor
from ankaios.agent.run_folder import RunFolder
from ankaios.agent.server_link import LINK_CAPACITY, LinkChannel, Outbox, ServerLink, agent_hello
from ankaios.agent.settings import AgentSettings
from ankaios.common.config import INSECURE_WARNING, PEM_WINS_WARNING, PemMaterial, require_security
from ankaios.common.errors import StartupFailed
from ankaios.common.service_manager import READY, STOPPING, keep_watchdog_calm, notify
from ankaios.middleware.client import ConnectionSettings, VersionRefused
from ankaios.runtimes.registry import RUNTIME_NAMES, make_connectors
from ankaios.runtimes.runtime_connector import RuntimeConnector

log = logging.getLogger(__name__)


def _chance() -> float:
    """From 0 to 1, evenly spread; the `random` module would cost more memory than all retries are worth."""
    return int.from_bytes(os.urandom(6)) / 2**48


async def run_agent(
    settings: AgentSettings,
    connectors: Mapping[str, RuntimeConnector],
    devices: DeviceService | None = None,
    chance: Callable[[], float] = _chance,
) -> None:
    """Until it is cancelled; a server that refuses our protocol version is a failed start, whenever it happens."""
    folder = RunFolder(settings.run_folder, settings.name)
    folder.prepare(settings.run_folder)
    connection = ConnectionSettings(settings.server_url, _security(settings))
    try:
        await _run(settings, connection, connectors, folder, devices or NoDevices(), chance)
    except BaseExceptionGroup as group:
        refused = group.subgroup(VersionRefused)
        if refused is None:
            raise
        raise StartupFailed("Ankaios version mismatch", _first(refused).text) from group
    finally:
        for connector in connectors.values():
            await connector.close()


async def _run(
    settings: AgentSettings,
    connection: ConnectionSettings,
    connectors: Mapping[str, RuntimeConnector],
    folder: RunFolder,
    devices: DeviceService,
    chance: Callable[[], float],
) -> None:
    outbox, inbox = Outbox(), LinkChannel(LINK_CAPACITY)
    hello = agent_hello(settings.name, settings.tags, devices=devices.offers_devices)
    async with asyncio.TaskGroup() as tasks:
        load = LoadReporter(settings.name, outbox, ResourceMonitor())
        manager = AgentManager(settings.name, connectors, folder, devices, outbox, load, tasks, chance)
        tasks.create_task(load.run(), name="load reports")
        tasks.create_task(manager.run(inbox), name="agent manager")
        tasks.create_task(manager.run_devices(), name="devices")
        tasks.create_task(ServerLink(connection, hello, outbox, inbox).run(), name="connection to the server")
        tasks.create_task(keep_watchdog_calm(), name="watchdog")
        gc.collect()
        gc.freeze()  # what is there now stays: the collector need not look at it again
        notify(READY)


def _first(group: BaseExceptionGroup[VersionRefused]) -> VersionRefused:
    inner = group.exceptions[0]
    return _first(inner) if isinstance(inner, BaseExceptionGroup) else inner


def _security(settings: AgentSettings) -> PemMaterial | None:
    pem = require_security(settings.pem, settings.insecure)
    if pem is None:
        log.warning(INSECURE_WARNING)
    elif settings.insecure:
        log.warning(PEM_WINS_WARNING)
    return pem


def connectors_for(settings: AgentSettings) -> Mapping[str, RuntimeConnector]:
    names = RUNTIME_NAMES if settings.runtimes is None else settings.runtimes
    connectors = make_connectors(names, settings.run_folder, settings.name)
    if not connectors:
        raise StartupFailed("No runtime to run workloads with", f"known are {', '.join(RUNTIME_NAMES)}")
    return connectors


def devices_for(settings: AgentSettings) -> DeviceService:
    folder = RunFolder(settings.run_folder, settings.name).path / "devices"
    return AgentDevices(settings.name, folder, settings.kubelet_dir)


async def until_told_to_end(settings: AgentSettings) -> None:
    """SIGTERM and SIGINT end the agent, and nothing but the agent."""
    loop = asyncio.get_running_loop()
    connectors = connectors_for(settings)
    agent = asyncio.create_task(run_agent(settings, connectors, devices_for(settings)), name="agent")
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.cancel)
    with suppress(asyncio.CancelledError):
        await agent
    notify(STOPPING)
