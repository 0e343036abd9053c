"""Server and agents in one process: started together, watched together, and nothing left behind.

In come manifests and a few wishes; out goes a live table or the output of the workloads. Owns the tasks of server and
agents and a temporary run folder. At the end the desired state is emptied first, so that every workload is stopped and
removed in the right order, and only then agents and server end.

The session with the server is the one every command has; it waits in a thread, because server and agents need the loop.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, suppress
from pathlib import Path
from typing import Any

from ankaios.agent.agent import devices_for, run_agent
from ankaios.agent.settings import AgentSettings
from ankaios.cli.arguments import Call, UsageError
from ankaios.cli.connection import CommandFailed, Session, commander_hello
from ankaios.cli.input_file import STANDARD_INPUT, hint_of
from ankaios.cli.manifests import read_change
from ankaios.cli.output import CliError, Output
from ankaios.cli.up_logs import follow_logs
from ankaios.cli.up_view import ClusterView, own_command
from ankaios.cli.workload_rows import instances_of, state_text
from ankaios.common.config import GivenPem
from ankaios.common.errors import Rejected, StartupFailed
from ankaios.common.log import setup_logging
from ankaios.common.names import check_agent_name
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.middleware import blocking_client, client
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from ankaios.runtimes.native_processes import NativeFolder
from ankaios.runtimes.registry import RUNTIME_NAMES, make_connectors
from ankaios.server.shell import ServerShell

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 25551
DEFAULT_NAME = "node"
CLEAN_UP_SECONDS = 60.0
FIRST_STATE_SECONDS = 5.0
_ANSWER_MS = 10_000
_SAME_WISH_SECONDS = 1.0
_GLANCE_SECONDS = 0.25
"""How long a look at the news takes if there are none, and so how late a stop is noticed."""


def run(call: Call) -> int:
    gc.enable()  # which a short command does without
    logging.getLogger().addHandler(logging.NullHandler())
    if call.output.verbose:
        setup_logging()
    _check_wishes(call)
    try:
        change = read_change(call.output, call.values["files"], None, need_agent=False)
        return _run_in_a_folder(call, dict(change.desired_state))
    except Rejected as fault:
        raise CliError(str(fault), hint_of(fault) or _where(call.values["files"])) from fault
    except StartupFailed as fault:
        raise CliError(fault.reason) from fault
    except CommandFailed as fault:
        raise CliError(str(fault), fault.hint) from fault


def _where(files: Sequence[str]) -> str:
    """The server looks at all manifests together."""
    return "" if STANDARD_INPUT in files else f"to see where: ank validate {shlex.join(files)}"


def _check_wishes(call: Call) -> None:
    """Whoever wishes for what cannot be is told at once; agents would try again for ever."""
    for runtime in call.values["runtimes"]:
        if runtime not in RUNTIME_NAMES:
            possible = f"\n  [possible values: {', '.join(RUNTIME_NAMES)}]"
            raise UsageError(f"invalid value '{runtime}' for '--runtime <RUNTIME>'{possible}", call.path)
    for name in call.values["names"]:
        try:
            check_agent_name(name or " ")
        except Rejected as fault:
            raise UsageError(f"invalid value '{name}' for '--name <NAME>': {fault}", call.path) from fault


def _run_in_a_folder(call: Call, desired: dict[str, Any]) -> int:
    """The folder goes last: until the loop is closed there may be threads that write into it."""
    folder = Path(tempfile.mkdtemp(prefix="ank-up-"))
    try:
        asyncio.run(Up(call, desired, folder).run())
    except ExceptionGroup as faults:
        raise _first(faults) from faults
    finally:
        _end_native_workloads(folder)
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _end_native_workloads(folder: Path) -> None:
    """Those that an agent was about to start when it was ended. Nobody would find them again."""
    for note in folder.glob("*_native/*/process"):
        if (found := NativeFolder(note.parent).processes()) and found[0].alive:
            with suppress(ProcessLookupError):
                os.killpg(found[0].pid, signal.SIGKILL)


class Up:
    def __init__(self, call: Call, desired: dict[str, Any], folder: Path) -> None:
        self._output: Output = call.output
        self._values = call.values
        self._desired = desired
        self._stop = asyncio.Event()
        self._server = ServerShell(None, ())
        self._folder = folder

    async def run(self) -> None:
        names = list(self._values["names"])
        workloads = self._desired.setdefault("workloads", {})
        for name, workload in workloads.items():
            workloads[name] = {"agent": names[0] if names else DEFAULT_NAME} | workload
        try:
            await self._server.load(self._desired)
        except StartupFailed as fault:
            raise Rejected(fault.reason) from fault
        self._stop_on_signals()
        await self._listen()
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._server.run(), name="server")]
            try:
                with await asyncio.to_thread(self._dial) as connection:
                    session = Session(connection, _ANSWER_MS)
                    agents = names or await _agents_of(session)
                    running += [tasks.create_task(self._run_agent(name), name=f"agent {name}") for name in agents]
                    await self._watch_and_clean_up(session)
            finally:
                for task in running:
                    task.cancel()
                await self._server.middleware.close()

    # --- starting

    async def _listen(self) -> None:
        try:
            await self._server.middleware.start(LOOPBACK, DEFAULT_PORT)
        except StartupFailed:
            await self._server.middleware.start(LOOPBACK, 0)
        where = f"Server on {self._url}"
        self._say(where if self._live else f"{where}; in another terminal: {self._ank} get workloads")

    @property
    def _url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.middleware.port}"

    @property
    def _ank(self) -> str:
        where = "" if self._server.middleware.port == DEFAULT_PORT else f" -s {self._url}"
        return f"{own_command()} -k{where}"

    @property
    def _live(self) -> bool:
        return self._output.is_terminal and not self._values["follow"]

    def _dial(self) -> blocking_client.BlockingConnection:
        return blocking_client.connect_blocking(ConnectionSettings(self._url), Method.CLI, commander_hello())

    def _connect(self) -> AbstractAsyncContextManager[client.ServerConnection]:
        return client.connect(ConnectionSettings(self._url), Method.CLI, commander_hello())

    async def _run_agent(self, name: str) -> None:
        wanted = self._values["runtimes"] or [
            runtime for runtime in RUNTIME_NAMES if not runtime.startswith("podman") or shutil.which("podman")
        ]
        settings = AgentSettings(
            name=name,
            server_url=self._url,
            run_folder=self._folder,
            insecure=True,
            pem=GivenPem(),
            tags={},
            runtimes=tuple(wanted),
        )
        await run_agent(settings, make_connectors(wanted, self._folder, name), devices_for)

    def _stop_on_signals(self) -> None:
        """The first one ends politely, another one at once; `timeout`, and who closes a window, sends two together."""
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            self._stop.set()
            loop.call_later(_SAME_WISH_SECONDS, loop.remove_signal_handler, number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, stop, number)

    # --- watching

    async def _watch_and_clean_up(self, session: Session) -> None:
        try:
            await self._watch(session)
        except OSError:  # nobody reads what we say any more: the pipe or the terminal was closed, or the disk is full
            await self._clean_up(session)
            raise
        await self._clean_up(session)

    async def _watch(self, session: Session) -> None:
        """Until somebody has seen enough or, if that is wanted, until nothing moves any more."""
        following = None
        if self._values["follow"]:
            following = asyncio.create_task(follow_logs(self._connect, self._output), name="logs of workloads")
        view = ClusterView(self._output, session, self._ank)
        await asyncio.to_thread(view.look)
        while not (self._stop.is_set() or (following and following.done())):
            if self._live:
                view.draw(with_hints=not self._values["settle"])
            await asyncio.to_thread(view.look, _GLANCE_SECONDS)
            if self._values["settle"] and view.is_settled:
                break
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
        if not self._live:
            view.print()

    # --- ending

    async def _clean_up(self, session: Session) -> None:
        """Emptying the desired state stops everything in the order that dependencies ask for."""
        self._say("Stopping and removing all workloads (once more Ctrl+C: leave at once) …")
        nothing = base.CompleteState(desiredState=base.State(apiVersion="v1", workloads=base.WorkloadMap()))
        first = asyncio.get_running_loop().time() + FIRST_STATE_SECONDS
        end = asyncio.get_running_loop().time() + CLEAN_UP_SECONDS
        while asyncio.get_running_loop().time() < end:
            state = await asyncio.to_thread(session.complete_state, "workloadStates", "desiredState.workloads")
            if _is_initial(state) and asyncio.get_running_loop().time() < first:
                pass  # its agent is about to start it, and would do so after its deletion was told
            elif state.desiredState.workloads.workloads:  # again for what a workload starts while it is being stopped
                await asyncio.to_thread(session.update, nothing, ["desiredState"])
            elif not state.workloadStates.agentStateMap:
                return
            await asyncio.to_thread(session.next_states, _GLANCE_SECONDS)
        with suppress(OSError):
            self._output.warn("some workloads could not be removed in time; see 'podman ps'")

    def _say(self, text: str) -> None:
        if not self._output.quiet:
            with suppress(OSError):  # whoever it is for has gone, and there is still something to do
                self._output.stderr_line(text)


async def _agents_of(session: Session) -> list[str]:
    """The names that workloads ask for once their templates are rendered."""
    state = await asyncio.to_thread(session.complete_state, "effectiveState.workloads.*.agent")
    names = {workload.agent for workload in state.effectiveState.workloads.workloads.values()} - {""}
    return sorted(names) or [DEFAULT_NAME]


def _first(faults: ExceptionGroup[Exception]) -> Exception:
    """The one that came first: the others followed from it."""
    fault = faults.exceptions[0]
    return _first(fault) if isinstance(fault, ExceptionGroup) else fault


def _is_initial(state: base.CompleteState) -> bool:
    return any(state_text(execution) == "Pending(Initial)" for _, execution in instances_of(state.workloadStates))
