"""The runtime connectors of an agent by name. Most nodes use one or two, so a connector is loaded at its first use.

Input: functions that make the connectors. The module owns the connectors that were made.
"""

from collections.abc import Callable, Iterator, Mapping

from ankaios.runtimes.runtime_connector import RuntimeConnector


class Connectors(Mapping[str, RuntimeConnector]):
    def __init__(
        self,
        makers: Mapping[str, Callable[[], RuntimeConnector]],
        unused: Mapping[str, Callable[[], bool]] | None = None,
    ) -> None:
        """`unused` returns for some runtimes whether they certainly have no workloads."""
        self._makers = makers
        self._unused = unused or {}
        self._made: dict[str, RuntimeConnector] = {}
        self._wrap: Callable[[RuntimeConnector], RuntimeConnector] = lambda connector: connector

    def __getitem__(self, name: str) -> RuntimeConnector:
        if name not in self._made:
            self._made[name] = self._wrap(self._makers[name]())
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    def is_unused(self, name: str) -> bool:
        """Return whether the runtime certainly has no workloads, without loading its connector."""
        return name not in self._made and name in self._unused and self._unused[name]()

    def wrap(self, wrap: Callable[[RuntimeConnector], RuntimeConnector]) -> None:
        """Replace all connectors, also those that are made later."""
        self._wrap = wrap
        self._made = {name: wrap(connector) for name, connector in self._made.items()}

    async def close(self) -> None:
        for connector in self._made.values():
            await connector.close()
