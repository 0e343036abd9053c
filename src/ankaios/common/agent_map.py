"""The connected agents and what is known of them. This map is the only owner of these facts.

They are kept in the form in which they are read: `{name: {status: {cpuUsage, freeMemory}, tags: {…}, resources: […]}}`,
parts that are unknown or empty being absent. The attributes of an agent are replaced, never changed. Whoever wants to
know what changes is told the path before it happens.

[impl->swdd~agent-map-manages-agent-names-with-agent-attributes~2]
"""

from collections.abc import Callable, Mapping
from typing import Any

from ankaios.common.model.state import AGENT_ATTRIBUTES
from ankaios.common.model.values import Form

Touch = Callable[[tuple[str, ...]], None]


def _nobody(_: tuple[str, ...]) -> None:
    pass


class AgentMap:
    """`form` may be read by everybody and changed only here."""

    def __init__(self, touch: Touch = _nobody) -> None:
        self.form: dict[str, Form] = {}
        self._touch = touch

    def __contains__(self, agent: str) -> bool:
        return agent in self.form

    def add(self, agent: str, tags: Mapping[str, str]) -> None:
        """A newly connected agent has tags but no status; an older entry of that name is replaced."""
        self._touch((agent,))
        self.form[agent] = {"tags": dict(tags)} if tags else {}

    def remove(self, agent: str) -> None:
        if agent in self.form:
            self._touch((agent,))
            del self.form[agent]

    def set_load(self, agent: str, cpu_usage: int, free_memory: int) -> None:
        self._set(agent, "status", {"cpuUsage": cpu_usage, "freeMemory": free_memory})

    def set_tags(self, agent: str, tags: Mapping[str, str]) -> None:
        self._set(agent, "tags", dict(tags))

    def set_resources(self, agent: str, resources: list[Form]) -> None:
        self._set(agent, "resources", resources)

    def _set(self, agent: str, part: str, value: Any) -> None:
        """Agents that are not connected have no attributes."""
        if agent not in self.form:
            return
        self._touch((agent,))
        parts = {**self.form[agent], part: value}
        self.form[agent] = {name: parts[name] for name in AGENT_ATTRIBUTES.fields if parts.get(name)}
