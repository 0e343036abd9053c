"""The connected agents and their attributes. This map is the only owner of these facts.

They are stored in plain form: `{name: {status: {cpuUsage, freeMemory}, tags: {…}, resources: […]}}`, without parts that
are unknown or empty. The attributes of an agent are replaced, never changed. `before_change` is called with the path of
each change.

[impl->swdd~agent-map-manages-agent-names-with-agent-attributes~2]
"""

from collections.abc import Callable, Mapping
from typing import Any

from ankaios.common.model.state import AGENT_ATTRIBUTES
from ankaios.common.state_manipulation import Form, Path


class AgentMap:
    """All modules may read `form`, but only this class changes it."""

    def __init__(self, before_change: Callable[[Path], None]) -> None:
        self.form: dict[str, Form] = {}
        self._before_change = before_change

    def __contains__(self, agent: str) -> bool:
        return agent in self.form

    def add(self, agent: str, tags: Mapping[str, str]) -> None:
        """Add a newly connected agent, which has tags but no status. An older entry of that name is replaced."""
        self._before_change((agent,))
        self.form[agent] = {"tags": dict(tags)} if tags else {}

    def remove(self, agent: str) -> None:
        if agent in self.form:
            self._before_change((agent,))
            del self.form[agent]

    def set_load(self, agent: str, cpu_usage: int, free_memory: int) -> None:
        self._set(agent, "status", {"cpuUsage": cpu_usage, "freeMemory": free_memory})

    def set_tags(self, agent: str, tags: Mapping[str, str]) -> None:
        self._set(agent, "tags", dict(tags))

    def set_resources(self, agent: str, resources: list[Form]) -> None:
        self._set(agent, "resources", resources)

    def _set(self, agent: str, part: str, value: Any) -> None:
        """Do nothing for an agent that is not connected."""
        if agent not in self.form:
            return
        self._before_change((agent,))
        parts = {**self.form[agent], part: value}
        self.form[agent] = {name: parts[name] for name in AGENT_ATTRIBUTES.fields if parts.get(name)}
