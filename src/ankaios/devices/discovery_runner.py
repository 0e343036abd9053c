"""Runs discovery: for each configuration, all handlers with the name it contains.

Input: configurations and handlers that are added, changed and removed. Output: what their lists and failures change in
the devices of the node. A handler whose stream ends is called again; its last list stays valid until it sends another
one or is removed. A handler that rejects the details reports no devices: an earlier list answered other details.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from pathlib import Path

from msgspec import Struct

from ankaios.common.supervision import Supervisor
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.core.discovered_device import Devices
from ankaios.devices.core.node_devices import DeviceChanges, NodeDevices
from ankaios.devices.discovery.base import DiscoveryHandler, HandlerLost, InvalidDetails
from ankaios.devices.discovery.registry import HandlerRegistry

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
LARGEST_PROPERTY = 64 * 1024
REGISTRATION = "registration"  # the source of failures while no handler is registered

log = logging.getLogger(__name__)


class _Source(Struct, frozen=True, eq=False):
    """A handler that is followed for a configuration; `name` identifies it in the inventory."""

    configuration: Configuration
    handler: DiscoveryHandler
    name: str


class DiscoveryRunner:
    """`changed` receives what a list or a failure of a handler changed."""

    def __init__(self, registry: HandlerRegistry, node: NodeDevices, changed: Callable[[DeviceChanges], None]) -> None:
        self._registry = registry
        self._node = node
        self._changed = changed
        self._wanted: dict[str, Configuration] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._sources: dict[str, dict[DiscoveryHandler, str]] = {}  # the current ones of each configuration
        self._numbers = count()
        self._group: Supervisor | None = None

    async def run(self) -> None:
        async with Supervisor() as group:
            self._group = group
            try:
                self.configure(self._wanted)
                await asyncio.Event().wait()
            finally:
                self._group = None

    def configure(self, wanted: Mapping[str, Configuration]) -> None:
        """A discovery continues if its handler, details and properties are unchanged."""
        before, self._wanted = self._wanted, dict(wanted)
        if self._group is None:
            return
        for name, task in list(self._running.items()):
            if name not in wanted or not wanted[name].discovers_like(before[name]):
                task.cancel()
                del self._running[name]
            if name not in wanted:
                self._sources.pop(name, None)
        for name, configuration in wanted.items():
            if name not in self._running:
                work = partial(self._discover, configuration)
                self._running[name] = self._group.keep_running(f"the discovery for '{name}'", work)

    async def _discover(self, configuration: Configuration) -> None:
        """Follow all handlers with the name, including those that register later."""
        following: dict[DiscoveryHandler, asyncio.Task[None]] = {}
        async with Supervisor() as group:
            while True:
                version = self._registry.version
                self._update(configuration, following, group)
                await self._registry.wait_changed(version)

    def _update(
        self,
        configuration: Configuration,
        following: dict[DiscoveryHandler, asyncio.Task[None]],
        group: Supervisor,
    ) -> None:
        handlers = self._registry.get(configuration.handler)
        sources = self._sources.setdefault(configuration.name, {})
        for handler in [handler for handler in sources if handler not in handlers]:
            if handler in following:
                following.pop(handler).cancel()
            # The handler is removed, so its devices are gone.
            self._observe(_Source(configuration, handler, sources.pop(handler)), ())
        for handler in [handler for handler in handlers if handler not in following]:
            name = sources.setdefault(handler, f"{handler.name}#{next(self._numbers)}")
            source = _Source(configuration, handler, name)
            following[handler] = group.keep_running(
                f"the discovery handler '{handler.name}' for '{configuration.name}'",
                partial(self._follow, source),
                partial(self._broken, source),
            )
        if handlers:
            self._changed(self._node.discovery_possible(configuration.name, REGISTRATION))
        else:
            reason = f"the discovery handler '{configuration.handler}' is not registered"
            log.info("no devices are discovered for '%s': %s", configuration.name, reason)
            self._changed(self._node.discovery_failed(configuration.name, REGISTRATION, reason))

    async def _follow(self, source: _Source) -> None:
        """Call the handler again after an interruption; after a rejection only when a handler registers."""
        configuration, handler = source.configuration, source.handler
        pause, reported = FIRST_PAUSE, ""
        while True:
            version = self._registry.version
            try:
                properties = configuration.properties
                if configuration.property_files:
                    properties = await asyncio.to_thread(read_properties, configuration)
                async with aclosing(handler.discover(configuration.details, properties)) as lists:
                    async for devices in lists:
                        pause, reported = FIRST_PAUSE, ""
                        if self._is_current(source):
                            self._observe(source, devices)
                raise HandlerLost(f"handler '{handler.name}' ended its stream of lists")
            except InvalidDetails as fault:
                self._rejected(source, str(fault))
                await self._registry.wait_changed(version)
            except HandlerLost as fault:
                if str(fault) != reported:
                    log.warning("discovery for '%s' is interrupted, devices are kept: %s", configuration.name, fault)
                    self._broken(source, str(fault))
                reported = str(fault)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._registry.wait_changed(version)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _rejected(self, source: _Source, reason: str) -> None:
        log.error("no devices are discovered for '%s': %s", source.configuration.name, reason)
        if self._is_current(source):
            self._observe(source, ())
        self._broken(source, reason)

    def _broken(self, source: _Source, reason: str) -> None:
        """The handler cannot be used at the moment; its devices are kept, as after every interruption."""
        if self._is_current(source):
            self._changed(self._node.discovery_failed(source.configuration.name, source.name, reason))

    def _observe(self, source: _Source, devices: Devices) -> None:
        now = asyncio.get_running_loop().time()
        name, shared = source.configuration.name, source.handler.shared
        self._changed(self._node.observe(name, source.name, devices, shared, now))

    def _is_current(self, source: _Source) -> bool:
        """A discovery that is being cancelled may still report a list for earlier details."""
        name = source.configuration.name
        wanted = self._wanted.get(name)
        is_wanted = wanted is not None and wanted.discovers_like(source.configuration)
        return is_wanted and self._sources.get(name, {}).get(source.handler) == source.name


def read_properties(configuration: Configuration) -> dict[str, bytes | None]:
    """The properties with the content of the files that they name. Raises `HandlerLost` if one cannot be read."""
    properties = dict(configuration.properties)
    for name, path in configuration.property_files.items():
        try:
            with Path(path).open("rb") as file:
                content = file.read(LARGEST_PROPERTY + 1)
        except OSError as error:
            raise HandlerLost(f"cannot read the file of the property '{name}': {error}") from error
        if len(content) > LARGEST_PROPERTY:
            raise HandlerLost(f"the file '{path}' of the property '{name}' has more than {LARGEST_PROPERTY} bytes")
        properties[name] = content.removesuffix(b"\n")
    return properties
