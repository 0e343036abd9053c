"""Assembles the parts of an agent and runs it until a signal ends it.

Input: settings and runtimes. The module owns the supervisor of all tasks. When the agent ends, workloads continue to
run, and FIFOs and files stay for the next agent.
"""

import asyncio
import gc
import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ankaios.agent.devices import AgentDevices, DeviceProvider
from ankaios.agent.load_reporter import LoadReporter
from ankaios.agent.observer import AgentObserver
from ankaios.agent.resource_monitor import ResourceMonitor
from ankaios.agent.run_folder import RunFolder
from ankaios.agent.server_link import LINK_CAPACITY, LinkChannel, Outbox, ServerLink, agent_hello
from ankaios.agent.settings import AgentSettings
from ankaios.common.config import INSECURE_WARNING, PEM_WINS_WARNING, PemMaterial, require_security
from ankaios.common.errors import Rejected, StartupFailed
from ankaios.common.service_manager import (
    READY,
    STOPPING,
    dump_traceback_on_abort,
    hide_from_children,
    notify,
    send_watchdog_pings,
)
from ankaios.common.supervision import Supervisor, first_error
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.runtimes.connectors import Connectors
from ankaios.runtimes.podman.early_listing import EarlyListing
from ankaios.runtimes.registry import RUNTIME_NAMES, make_connectors

if TYPE_CHECKING:
    from ankaios.agent.agent_manager import AgentManager
    from ankaios.agent.core.offline_state import OfflineState

START_DURATION = 1.0  # seconds until the start counts as finished
HELLO_LIMIT = 0.05  # seconds in which the hello can be sent before the rest of the agent is loaded
DEVICES_DELAY = 0.1
OFFLINE_POLL = 0.2

log = logging.getLogger(__name__)


def _chance() -> float:
    """Return a uniformly distributed number from 0 to 1, without loading `random`, which needs much memory."""
    return int.from_bytes(os.urandom(6)) / 2**48


async def run_agent(
    settings: AgentSettings,
    connectors: Connectors,
    devices_of: Callable[[AgentSettings], DeviceProvider],
    chance: Callable[[], float] = _chance,
) -> None:
    """Run until cancelled. If a server rejects the protocol version, `StartupFailed` is raised, at any time."""
    settings = _with_usable_state_dir(settings)
    folder = RunFolder(settings.run_folder, settings.name)
    folder.prepare()
    connection = ConnectionSettings(settings.server_url, _security(settings))
    observer, end_metrics = await _start_metrics(settings, connectors)
    try:
        await _run(settings, connection, connectors, folder, devices_of(settings), chance, observer)
    except BaseExceptionGroup as group:
        # An error that a user can correct, such as a version mismatch or an invalid certificate, is logged in one line.
        failed_start = group.subgroup(StartupFailed)
        raise group if failed_start is None else first_error(failed_start) from None
    finally:
        end_metrics()
        await connectors.close()


def _with_usable_state_dir(settings: AgentSettings) -> AgentSettings:
    """Disable a state folder that cannot be used, so that it does not prevent the start."""
    if settings.state_dir is None:
        return settings
    from ankaios.agent.offline_store import prepare_state_folder  # an agent without state folder starts faster

    try:
        prepare_state_folder(settings.state_dir)
    except (OSError, Rejected) as error:
        log.warning("the state folder '%s' is not used: %s", settings.state_dir, error)
        return replace(settings, state_dir=None)
    return settings


async def _start_metrics(settings: AgentSettings, connectors: Connectors) -> tuple[AgentObserver, Callable[[], None]]:
    """Return what counts the events, and the function that ends it. The modules are loaded if metrics are enabled."""
    if settings.metrics is None:
        return AgentObserver(), lambda: None
    from ankaios.agent.measured_connector import MeasuredConnector
    from ankaios.agent.metrics import AgentMetrics
    from ankaios.common.metrics import metrics_of
    from ankaios.common.metrics_endpoint import start_metrics

    metrics = AgentMetrics()
    metrics.tasks.read = lambda: {(): len(asyncio.all_tasks())}
    end = await start_metrics(settings.metrics, metrics_of(metrics))
    connectors.wrap(lambda connector: MeasuredConnector(connector, metrics))
    return metrics, end


async def _run(
    settings: AgentSettings,
    connection: ConnectionSettings,
    connectors: Connectors,
    folder: RunFolder,
    devices: DeviceProvider,
    chance: Callable[[], float],
    observer: AgentObserver,
) -> None:
    outbox, inbox = Outbox(observer), LinkChannel(LINK_CAPACITY)
    hello = agent_hello(settings.name, settings.tags, connectors, devices=True)
    async with Supervisor() as tasks:
        link = ServerLink(connection, hello, outbox, inbox)
        tasks.keep_running("the connection to the server", link.run)
        with suppress(TimeoutError):
            async with asyncio.timeout(HELLO_LIMIT):
                await link.attempted.wait()
        # Loaded while the server processes the hello: this takes 20 ms.
        from ankaios.agent.agent_manager import AgentManager

        load = LoadReporter(settings.name, outbox, ResourceMonitor())
        manager = AgentManager(settings.name, connectors, folder, devices, outbox, load, tasks, chance)
        if settings.state_dir is not None:
            _prepare_offline_start(settings.state_dir, settings.offline_start_after, manager, tasks)
        tasks.keep_running("the load reports", load.run)
        tasks.keep_running("the agent manager", lambda: manager.run(inbox))
        tasks.keep_running("the devices", lambda: _run_devices(manager), devices.broken)
        tasks.keep_running("the watchdog", send_watchdog_pings)
        asyncio.get_running_loop().call_later(START_DURATION, _settle_memory)
        dump_traceback_on_abort()
        notify(READY)


def _prepare_offline_start(folder: Path, seconds: int, manager: "AgentManager", tasks: Supervisor) -> None:
    from ankaios.agent.offline_store import OfflineStore  # an agent without state folder starts faster

    store = OfflineStore(folder, manager.name)
    stored = store.load()
    manager.use_offline_store(store)
    if stored is not None:
        tasks.run_once("the start without a server", lambda: _start_offline(manager, stored, seconds))


async def _start_offline(manager: "AgentManager", stored: "OfflineState", seconds: int) -> None:
    """Start the stored workloads after `seconds`. While a server is connected, wait for its workloads instead."""
    await asyncio.sleep(seconds)
    while manager.is_connected:
        if manager.has_workloads:
            return
        await asyncio.sleep(OFFLINE_POLL)
    manager.start_offline(stored, seconds)


async def _run_devices(manager: "AgentManager") -> None:
    """Load the devices after the connection is started, so that loading does not delay the connection."""
    await asyncio.sleep(DEVICES_DELAY)
    await manager.run_devices()


def _settle_memory() -> None:
    """Exclude the objects that exist now from garbage collection, because they stay in use."""
    gc.collect()
    gc.freeze()


def _security(settings: AgentSettings) -> PemMaterial | None:
    pem = require_security(settings.pem, settings.insecure)
    if pem is None:
        log.warning(INSECURE_WARNING)
    elif settings.insecure:
        log.warning(PEM_WINS_WARNING)
    return pem


def connectors_for(settings: AgentSettings, early: EarlyListing | None = None) -> Connectors:
    names = RUNTIME_NAMES if settings.runtimes is None else settings.runtimes
    connectors = make_connectors(names, settings.run_folder, settings.name, settings.podman, early=early)
    if not connectors:
        raise StartupFailed("No runtime to run workloads with", f"known are {', '.join(RUNTIME_NAMES)}")
    return connectors


def devices_for(settings: AgentSettings) -> DeviceProvider:
    folder = RunFolder(settings.run_folder, settings.name).path / "devices"
    claims = settings.state_dir / f"{settings.name}.claims" if settings.state_dir else None
    return AgentDevices(settings.name, folder, settings.kubelet_dir, settings.plugin_dir, claims)


async def _run_alone(settings: AgentSettings, early: EarlyListing | None) -> None:
    """Wait until no other agent of this name runs. After a wait, the early listing is outdated and dropped."""
    folder = RunFolder(settings.run_folder, settings.name)
    folder.prepare()
    if await folder.lock() and early is not None:
        early.drop()
    try:
        await run_agent(settings, connectors_for(settings, early), devices_for)
    finally:
        folder.unlock()


async def run_until_signal(settings: AgentSettings, early: EarlyListing | None = None) -> None:
    """Run until SIGTERM or SIGINT. The signals end the agent, but not its workloads."""
    hide_from_children()
    loop = asyncio.get_running_loop()
    agent = asyncio.create_task(_run_alone(settings, early), name="agent")
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, agent.cancel)
    with suppress(asyncio.CancelledError):
        await agent
    notify(STOPPING)
