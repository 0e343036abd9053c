"""Runs discovery: for each configuration, every handler of the name it asks for.

In: configurations that come, change and go, and handlers likewise. Out: the lists of the handlers, with who told them,
and their refusals. A handler that breaks off is asked again; what it said stays until it says something else, is gone
for good, or is no longer the one to ask. One that refuses the question sees nothing: what answered an earlier question
is no answer to this one, and after a restart nobody would know of it.
"""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import aclosing, suppress
from functools import partial
from itertools import count
from typing import Protocol

from ankaios.common.supervision import Supervisor
from ankaios.devices.core.configuration import Configuration
from ankaios.devices.discovery.base import Devices, DiscoveryHandler, HandlerLost, InvalidDetails
from ankaios.devices.discovery.registry import HandlerRegistry

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0

log = logging.getLogger(__name__)


class Observer(Protocol):
    """Who hears what handlers say; `source` names the one that speaks."""

    def observed(self, configuration: str, source: str, devices: Devices, shared: bool) -> None: ...

    def refused(self, configuration: str, source: str, why: str) -> None: ...


class DiscoveryRunner:
    def __init__(self, registry: HandlerRegistry, observer: Observer) -> None:
        self._registry = registry
        self._observer = observer
        self._wanted: dict[str, Configuration] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._sources: dict[str, dict[DiscoveryHandler, str]] = {}  # those that count for a configuration
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
        """A discovery goes on if its question is the same."""
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
        """Follow all handlers of the name, those that register later too."""
        following: dict[DiscoveryHandler, asyncio.Task[None]] = {}
        async with Supervisor() as group:
            while True:
                version = self._registry.version
                self._review(configuration, following, group)
                await self._registry.wait_changed(version)

    def _review(
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
            # Nobody else would ever say that these devices are gone.
            self._observer.observed(configuration.name, sources.pop(handler), (), handler.shared)
        for handler in [handler for handler in handlers if handler not in following]:
            source = sources.setdefault(handler, f"{handler.name}#{next(self._numbers)}")
            following[handler] = group.keep_running(
                f"the discovery handler '{handler.name}' for '{configuration.name}'",
                partial(self._follow, configuration, handler, source),
                partial(self._broken, configuration, handler, source),
            )
        if not handlers:
            log.info("waiting for discovery handler '%s' to register", configuration.handler)

    async def _follow(self, configuration: Configuration, handler: DiscoveryHandler, source: str) -> None:
        """Ask again after a break. A refused question is not repeated before somebody has registered anew."""
        pause, complaint = FIRST_PAUSE, ""
        while True:
            version = self._registry.version
            try:
                async with aclosing(handler.discover(configuration.details, configuration.properties)) as lists:
                    async for devices in lists:
                        pause, complaint = FIRST_PAUSE, ""
                        if self._counts(configuration, handler, source):
                            self._observer.observed(configuration.name, source, devices, handler.shared)
                raise HandlerLost(f"handler '{handler.name}' said no more")
            except InvalidDetails as fault:
                self._refused(configuration, handler, source, str(fault))
                await self._registry.wait_changed(version)
            except HandlerLost as fault:
                if str(fault) != complaint:
                    log.warning("discovery for '%s' is interrupted, devices are kept: %s", configuration.name, fault)
                complaint = str(fault)
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._registry.wait_changed(version)
                pause = min(2 * pause, LONGEST_PAUSE)

    def _refused(self, configuration: Configuration, handler: DiscoveryHandler, source: str, why: str) -> None:
        log.error("no devices are discovered for '%s': %s", configuration.name, why)
        if self._counts(configuration, handler, source):
            self._observer.observed(configuration.name, source, (), handler.shared)
            self._observer.refused(configuration.name, source, why)

    def _broken(self, configuration: Configuration, handler: DiscoveryHandler, source: str, why: str) -> None:
        """Devices that it saw are kept, as after every break."""
        if self._counts(configuration, handler, source):
            self._observer.refused(configuration.name, source, why)

    def _counts(self, configuration: Configuration, handler: DiscoveryHandler, source: str) -> bool:
        """The last words of a discovery that is being ended answer a question of the past."""
        wanted = self._wanted.get(configuration.name)
        is_asked = wanted is not None and wanted.discovers_like(configuration)
        return is_asked and self._sources.get(configuration.name, {}).get(handler) == source
