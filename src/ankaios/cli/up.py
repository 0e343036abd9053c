"""Server and agents in one process: started together, watched together, and nothing left behind.

In come manifests and a few wishes; out goes a live table or the output of the workloads. Owns the tasks of server and
agents and a temporary run folder. At the end the desired state is emptied first, so that every workload is stopped and
removed in the right order, and only then agents and server end.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from ankaios.agent.agent import devices_for, run_agent
from ankaios.agent.settings import AgentSettings
from ankaios.cli.arguments import Call
from ankaios.cli.commands.get_workloads import MASKS, table_of, updated
from ankaios.cli.connection import CommandFailed, Session
from ankaios.cli.manifests import read_change
from ankaios.cli.output import CliError, Output
from ankaios.cli.screen import Screen
from ankaios.cli.up_logs import follow_logs
from ankaios.cli.workload_rows import Instance, Row, rows_of
from ankaios.common.config import GivenPem
from ankaios.common.errors import Rejected, StartupFailed
from ankaios.common.log import setup_logging
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.common.version import PROTOCOL_VERSION
from ankaios.middleware import client as middleware
from ankaios.runtimes.registry import RUNTIME_NAMES, make_connectors
from ankaios.server.shell import ServerShell

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 25551
DEFAULT_NAME = "node"
CLEAN_UP_SECONDS = 60.0
CALM_SECONDS = 1.5
_MOVING = ("Pending(Initial)", "Pending(Starting)", "Stopping")
_ANSWER_MS = 10_000


def run(call: Call) -> int:
    logging.getLogger().addHandler(logging.NullHandler())
    if call.output.verbose:
        setup_logging()
    try:
        change = read_change(call.output, call.values["files"], None, need_agent=False)
        return asyncio.run(Up(call, dict(change.desired_state)).run())
    except (Rejected, StartupFailed) as fault:
        raise CliError(str(fault)) from fault
    except CommandFailed as fault:
        raise CliError(str(fault), fault.hint) from fault


class Up:
    def __init__(self, call: Call, desired: dict[str, Any]) -> None:
        self._output: Output = call.output
        self._values = call.values
        self._desired = desired
        self._stop = asyncio.Event()
        self._server = ServerShell(None, ())
        self._folder = Path(tempfile.mkdtemp(prefix="ank-up-"))

    async def run(self) -> int:
        names = list(self._values["names"])
        workloads = self._desired.setdefault("workloads", {})
        for name, workload in workloads.items():
            workloads[name] = {"agent": names[0] if names else DEFAULT_NAME} | workload
        await self._server.load(self._desired)
        await self._listen()
        self._stop_on_signals()
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._server.run(), name="server")]
            try:
                async with self._connect() as connection:
                    session = Session(connection, _ANSWER_MS)
                    agents = names or await _agents_of(session)
                    running += [tasks.create_task(self._run_agent(name), name=f"agent {name}") for name in agents]
                    await self._watch(session)
                    await self._clean_up(session)
            finally:
                for task in running:
                    task.cancel()
                await self._server.middleware.close()
                shutil.rmtree(self._folder, ignore_errors=True)
        return 0

    # --- starting

    async def _listen(self) -> None:
        try:
            await self._server.middleware.start(LOOPBACK, DEFAULT_PORT)
        except StartupFailed:
            await self._server.middleware.start(LOOPBACK, 0)
        self._say(f"Server on {self._url}; in another terminal: {self._ank} get workloads")

    @property
    def _url(self) -> str:
        return f"http://{LOOPBACK}:{self._server.middleware.port}"

    @property
    def _ank(self) -> str:
        where = "" if self._server.middleware.port == DEFAULT_PORT else f" -s {self._url}"
        return f"ank -k{where}"

    def _connect(self) -> Any:
        hello = grpc.ToServer(commanderHello=grpc.CommanderHello(protocolVersion=PROTOCOL_VERSION))
        return middleware.connect(middleware.ConnectionSettings(self._url), middleware.Method.CLI, hello)

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
        await run_agent(settings, make_connectors(wanted, self._folder, name), devices_for(settings))

    def _stop_on_signals(self) -> None:
        """The first one ends politely, the second one at once."""
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            loop.remove_signal_handler(number)
            self._stop.set()

        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop, number)

    # --- watching

    async def _watch(self, session: Session) -> None:
        """Until somebody has seen enough or, if that is wanted, until nothing moves any more."""
        following = None
        if self._values["follow"]:
            following = asyncio.create_task(follow_logs(self._connect, self._output), name="logs of workloads")
        screen = Screen(self._output)
        rows = rows_of(await session.complete_state(*MASKS))
        live = self._output.is_terminal and following is None
        loop = asyncio.get_running_loop()
        changed = loop.time()
        while not self._stop.is_set():
            if live:
                screen.draw(table_of(self._output, rows.values()))
            states = await self._states_or_stop(session)
            if states:
                changed = loop.time()
                if not all(updated(rows, state) for state in states):
                    rows = rows_of(await session.complete_state(*MASKS))
            elif self._values["settle"] and loop.time() - changed > CALM_SECONDS and _settled(rows):
                break
        if following is not None:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following
        if not live:
            self._output.line("\n".join(table_of(self._output, rows.values())))

    async def _states_or_stop(self, session: Session) -> list[base.WorkloadState]:
        """What is new, or nothing after a moment; waits no longer than until the stop."""
        news = asyncio.create_task(session.next_states(0.25), name="next states")
        stopped = asyncio.create_task(self._stop.wait(), name="stop wanted")
        try:
            await asyncio.wait({news, stopped}, return_when=asyncio.FIRST_COMPLETED)
            return news.result() if news.done() else []
        finally:
            stopped.cancel()
            if not news.done():
                news.cancel()

    # --- ending

    async def _clean_up(self, session: Session) -> None:
        """Emptying the desired state stops everything in the order that dependencies ask for."""
        self._say("Stopping and removing all workloads (once more Ctrl+C: leave at once) …")
        nothing = base.CompleteState(desiredState=base.State(apiVersion="v1", workloads=base.WorkloadMap()))
        await session.update(nothing, ["desiredState"])
        with suppress(TimeoutError):
            async with asyncio.timeout(CLEAN_UP_SECONDS):
                while (await session.complete_state("workloadStates")).workloadStates.agentStateMap:
                    await session.next_states(0.2)
                return
        self._output.warn("some workloads could not be removed in time; see 'podman ps'")

    def _say(self, text: str) -> None:
        if not self._output.quiet:
            self._output.stderr_line(text)


async def _agents_of(session: Session) -> list[str]:
    """The names that workloads ask for once their templates are rendered."""
    state = await session.complete_state("effectiveState.workloads.*.agent")
    names = {workload.agent for workload in state.effectiveState.workloads.workloads.values()} - {""}
    return sorted(names) or [DEFAULT_NAME]


def _settled(rows: dict[Instance, Row]) -> bool:
    return not any(row.state.startswith(_MOVING) for row in rows.values())
