"""A `PodmanCli` with a table of answers instead of podman: no program is run, and all calls are recorded."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ankaios.runtimes.command import CommandFailed, command_text
from ankaios.runtimes.podman.podman_cli import PodmanCli
from ankaios.runtimes.podman.podman_settings import PodmanSettings

PS = "ps --all --format=json"


def failed(why: str = "Error: boom", code: int = 125) -> CommandFailed:
    return CommandFailed(command_text("podman", ["…"]), why, code)


def a_container(container: str = "c1", state: str = "running", **more: Any) -> dict[str, Any]:
    return {"Id": container, "State": state, "ExitCode": 0, "Labels": None, "Pod": "", "Pid": 0} | more


DEFAULT_SETTINGS = PodmanSettings()


class RecordingCli(PodmanCli):
    """`answers` maps the beginning of a command line to its output, or to an error; the longest match is used.

    A list contains one answer per call; its last answer is repeated.
    """

    def __init__(self, containers: Sequence[dict[str, Any]] = (), settings: PodmanSettings = DEFAULT_SETTINGS) -> None:
        super().__init__(settings)
        self.answers: dict[str, Any] = {"": ""}
        self.calls: list[list[str]] = []
        self.fed: list[str] = []
        self.show(*containers)

    def show(self, *containers: dict[str, Any]) -> None:
        """Set the containers that `ps` lists from now on."""
        self.answers[PS] = json.dumps(list(containers))
        self.listings.reset()

    async def _call_now(
        self, arguments: Sequence[str], limit: float, stdin: str = "", environment: Mapping[str, str] | None = None
    ) -> str:
        self.calls.append(list(arguments))
        self.fed.append(stdin)
        line = " ".join(arguments)
        key = max((key for key in self.answers if line.startswith(key)), key=len)
        answer = self.answers[key]
        if isinstance(answer, list):
            answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    def lines(self) -> list[str]:
        """The calls so far, one line each."""
        return [" ".join(call) for call in self.calls]

    def count(self, beginning: str) -> int:
        return sum(line.startswith(beginning) for line in self.lines())
