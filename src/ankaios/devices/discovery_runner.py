"""Runs discovery: for each configuration, every handler of the name it asks for.

In: configurations that come, change and go, and handlers likewise. Out: the lists of the handlers, with who told them.
A handler that breaks off is asked again; what it said stays until it says something else, is gone for good, or is no
longer the one to ask.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from itertools import count

from ankaios.devices.core.configuration import Configuration
from ankaios.devices.discovery.base import Devices, DiscoveryHandler, HandlerLost, InvalidDetails
from ankaios.devices.discovery.registry import HandlerRegistry

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0

log = logging.getLogger(__name__)

# configuration, source, devices, shared
Observed = Callable[[str, str, Devices, bool], None]


class DiscoveryRunner:
    def __init__(self, registry: HandlerRegistry, observed: Observed) -> None:
        self._registry = registry
        self._observed = observed
        self._wanted: dict[str, Configuration] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._sources: dict[int, tuple[DiscoveryHandler, str]] = {}
        self._numbers = count()
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                self.configure(self._wanted)
                await asyncio.Event().wait()
            finally:
                self._group = None

    def configure(self, wanted: Mapping[str, Configuration]) -> None:
        """A discovery goes on if its question is the same."""
        before, self._wanted = self._wanted, dict(wanted)
        if self._group is None:
            return
        for name, task in list(self._running.items()):
            if name not in wanted or not wanted[name].discovers_like(before[name]):
                task.cancel()
                del self._running[name]
                if name in wanted and wanted[name].handler != before[name].handler:
                    self._retract(before[name])
        for name, configuration in wanted.items():
            if name not in self._running:
                task = self._group.create_task(self._discover(configuration), name=f"discovery for {name}")
                self._running[name] = task

    def _retract(self, configuration: Configuration) -> None:
        """Another handler is asked from now on, so nobody else would ever say that these devices are gone."""
        for handler, source in list(self._sources.values()):
            if handler.name == configuration.handler:
                self._observed(configuration.name, source, (), handler.shared)

    async def _discover(self, configuration: Configuration) -> None:
        """Follow all handlers of the name, those that register later too."""
        following: dict[int, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                version = self._registry.version
                handlers = {id(handler): handler for handler in self._registry.get(configuration.handler)}
                for key in following.keys() - handlers.keys():
                    following.pop(key).cancel()
                    handler, source = self._sources[key]
                    self._observed(configuration.name, source, (), handler.shared)
                for key, handler in handlers.items():
                    if key not in following:
                        work = self._follow(configuration, handler)
                        following[key] = group.create_task(work, name=f"discovery for {configuration.name}")
                if not handlers:
                    log.info("waiting for discovery handler '%s' to register", configuration.handler)
                await self._registry.wait_changed(version)

    async def _follow(self, configuration: Configuration, handler: DiscoveryHandler) -> None:
        """Ask again after a break. A refused question is not repeated before somebody has registered anew."""
        source = self._source(handler)
        pause, complaint = FIRST_PAUSE, ""
        while True:
            version = self._registry.version
            try:
                async with aclosing(handler.discover(configuration.details, configuration.properties)) as lists:
                    async for devices in lists:
                        pause, complaint = FIRST_PAUSE, ""
                        if self._is_asked(configuration):
                            self._observed(configuration.name, source, devices, handler.shared)
                raise HandlerLost(f"handler '{handler.name}' said no more")
            except InvalidDetails as fault:
                log.error("cannot discover devices for '%s': %s", configuration.name, fault)
                await self._registry.wait_changed(version)
            except HandlerLost as fault:
                if str(fault) != complaint:
                    log.warning("discovery for '%s' is interrupted, devices are kept: %s", configuration.name, fault)
                complaint = str(fault)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._registry.wait_changed(version)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _is_asked(self, configuration: Configuration) -> bool:
        """The last words of a discovery that is being ended answer a question of the past."""
        wanted = self._wanted.get(configuration.name)
        return wanted is not None and wanted.discovers_like(configuration)

    def _source(self, handler: DiscoveryHandler) -> str:
        """The name of a handler object; it is kept alive here, so that its number stays its own."""
        if id(handler) not in self._sources:
            self._sources[id(handler)] = (handler, f"{handler.name}#{next(self._numbers)}")
        return self._sources[id(handler)][1]
