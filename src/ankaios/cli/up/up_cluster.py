"""A server and agents in one event loop, for `ank up`.

Input: the desired state and the options. Output: a live table, or the output of the workloads. Owns the tasks of server
and agents. At the end the desired state is emptied first, so that every workload is stopped in the order of its
dependencies; then agents and server end. The session with the server blocks, so it runs in a thread.
"""

import asyncio
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from ankaios.agent.agent import devices_for, run_agent
from ankaios.agent.settings import AgentSettings
from ankaios.cli.command_line.arguments import CommandCall
from ankaios.cli.connection import commander_hello
from ankaios.cli.session import Session
from ankaios.cli.terminal.output import CliOutput
from ankaios.cli.up.up_view import ClusterView, own_command
from ankaios.cli.views.workload_rows import state_text, workload_instances
from ankaios.common.config import GivenPem
from ankaios.common.errors import Rejected, StartupFailed
from ankaios.common.model.state import API_VERSION
from ankaios.common.pb import ank_base_pb2 as base
from ankaios.middleware.blocking_client import BlockingConnection, connect_blocking
from ankaios.middleware.connecting import ConnectionSettings
from ankaios.middleware.methods import Method
from ankaios.runtimes.registry import RUNTIME_NAMES, make_connectors
from ankaios.server.shell import ServerShell

if TYPE_CHECKING:
    from ankaios.server.state_leader import StateLeader

LOOPBACK = "127.0.0.1"
DEFAULT_PORT = 25551
DASHBOARD_PORT = 8080
DEFAULT_AGENT = "node"
CLEAN_UP_SECONDS = 60.0
FIRST_STATE_SECONDS = 5.0
_RESPONSE_MS = 10_000
_SECOND_SIGNAL_SECONDS = 1.0
_POLL_SECONDS = 0.25
"""How long to wait for changes, and so how late a stop is noticed."""


class LocalCluster:
    def __init__(self, call: CommandCall, desired: dict[str, Any], folder: Path) -> None:
        self._output: CliOutput = call.output
        self._values = call.values
        self._desired = desired
        self._stop = asyncio.Event()
        self._server = ServerShell(None, ())
        self._dashboard_ready = asyncio.Event()
        self._folder = folder
        self._leader: StateLeader | None = None
        self._leading: asyncio.Task[None] | None = None

    async def run(self) -> None:
        names = list(self._values["name"])
        workloads = self._desired.setdefault("workloads", {})
        for name, workload in workloads.items():
            workloads[name] = {"agent": names[0] if names else DEFAULT_AGENT} | workload
        try:
            await self._load()
        except StartupFailed as error:
            raise Rejected(error.reason) from error
        self._stop_on_signals()
        await self._listen()
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(self._server.run(), name="server")]
            if self._leader is not None:
                self._leading = tasks.create_task(self._leader.run(), name="leader")
                running.append(self._leading)
            try:
                if self._values["dashboard"]:
                    running.append(tasks.create_task(self._run_dashboard(), name="dashboard"))
                    await self._dashboard_ready.wait()
                with await asyncio.to_thread(self._connect) as connection:
                    self._output.wait_writable = connection.wait_writable
                    session = Session(connection, _RESPONSE_MS)
                    agents = names or await _agent_names(session)
                    running += [tasks.create_task(self._run_agent(name), name=f"agent {name}") for name in agents]
                    await self._watch_and_clean_up(session)
            finally:
                for task in running:
                    task.cancel()
                await self._server.middleware.close()

    # --- start

    async def _load(self) -> None:
        """With `--keep` the manifests are added to the kept state."""
        if self._values["keep"] is None:
            await self._server.load(self._desired)
            return
        from ankaios.server.state_leader import StartState, StateLeader  # the storage is needed only here
        from ankaios.storage.leader_election import Candidate, SoleElection
        from ankaios.storage.sqlite.sqlite_store import SqliteStore
        from ankaios.storage.storage import Storage

        folder = Path(self._values["keep"]).absolute()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = Candidate("ank up", "")
        start = StartState({"apiVersion": API_VERSION, **self._desired}, applies_always=True)
        storage = Storage(SqliteStore(folder / "state.db"), SoleElection())
        self._leader = StateLeader(self._server, storage, (), start, own)
        await self._leader.begin()

    async def _stop_keeping(self) -> None:
        """The clean-up removes the workloads, but not the kept state."""
        if self._leader is not None and self._leading is not None:
            self._leading.cancel()
            await asyncio.wait((self._leading,))
            self._server.stop_storing()
            await self._leader.close()

    async def _listen(self) -> None:
        try:
            await self._server.middleware.start(LOOPBACK, DEFAULT_PORT)
        except StartupFailed:
            await self._server.middleware.start(LOOPBACK, 0)
        where = f"Server on {self._url}"
        self._print_status(where if self._live else f"{where}; in another terminal: {self._ank} get workloads")

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

    def _connect(self) -> BlockingConnection:
        return connect_blocking(ConnectionSettings(self._url), Method.CLI, commander_hello())

    async def _run_agent(self, name: str) -> None:
        runtimes = self._values["runtime"] or [
            runtime for runtime in RUNTIME_NAMES if not runtime.startswith("podman") or shutil.which("podman")
        ]
        settings = AgentSettings(
            name=name,
            server_url=self._url,
            run_folder=self._folder,
            insecure=True,
            pem=GivenPem(),
            tags={},
            runtimes=tuple(runtimes),
        )
        await run_agent(settings, make_connectors(runtimes, self._folder, name), devices_for)

    async def _run_dashboard(self) -> None:
        """With changes allowed: a user who can open the page can also use the server, which has no TLS."""
        try:
            from ankaios.dashboard.program import DashboardSettings, serve_dashboard
        except ImportError as error:
            reason = f"'--dashboard' needs the Python package '{error.name}': pip install 'ankaios[dashboard]'"
            raise Rejected(reason) from error

        def ready(url: str) -> None:
            self._print_status(f"Dashboard on {url}")
            self._dashboard_ready.set()

        connection = ConnectionSettings(self._url)
        settings = DashboardSettings(connection, LOOPBACK, DASHBOARD_PORT, allow_changes=True)
        try:
            await serve_dashboard(settings, ready)
        except Rejected:  # the port is in use
            await serve_dashboard(DashboardSettings(connection, LOOPBACK, 0, allow_changes=True), ready)

    def _stop_on_signals(self) -> None:
        """The first signal starts the clean-up, one after a second ends the process. `timeout` sends two at once.

        The handlers stay when the event loop ends, so a signal cannot prevent that the folder is removed.
        """
        loop = asyncio.get_running_loop()

        def stop(number: int) -> None:
            self._stop.set()
            loop.call_later(_SECOND_SIGNAL_SECONDS, signal.signal, number, signal.SIG_DFL)

        def receive(number: int, _: FrameType | None) -> None:
            with suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(stop, number)

        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, receive)

    # --- watch

    async def _watch_and_clean_up(self, session: Session) -> None:
        try:
            await self._watch(session)
        except OSError:  # the pipe or terminal was closed, or the disk is full
            await self._clean_up(session)
            raise
        await self._clean_up(session)

    async def _watch(self, session: Session) -> None:
        """Show the cluster until a signal arrives or, with `--settle`, until all workloads have settled."""
        with ClusterView(self._output, session, self._ank, follow=bool(self._values["follow"])) as view:
            await asyncio.to_thread(view.refresh)
            while not self._stop.is_set():
                if self._live:
                    view.show(with_next_steps=not self._values["settle"])
                await asyncio.to_thread(view.refresh, _POLL_SECONDS)
                if self._values["settle"] and view.is_settled:
                    break
        if not self._live:
            view.print()

    # --- end

    async def _clean_up(self, session: Session) -> None:
        """Empty the desired state, which stops the workloads in the order of their dependencies."""
        await self._stop_keeping()
        self._print_status("Stopping and removing all workloads (Ctrl+C again: end immediately) …")
        nothing = base.CompleteState(desiredState=base.State(apiVersion="v1", workloads=base.WorkloadMap()))
        first = asyncio.get_running_loop().time() + FIRST_STATE_SECONDS
        end = asyncio.get_running_loop().time() + CLEAN_UP_SECONDS
        while asyncio.get_running_loop().time() < end:
            state = await asyncio.to_thread(session.complete_state, "workloadStates", "desiredState.workloads")
            if _has_initial_workload(state) and asyncio.get_running_loop().time() < first:
                pass  # its agent is about to start it, and could do so after the deletion
            elif state.desiredState.workloads.workloads:  # also those that a workload adds during the clean-up
                await asyncio.to_thread(session.update, nothing, ["desiredState"])
            elif not state.workloadStates.agentStateMap:
                return
            await asyncio.to_thread(session.next_states, _POLL_SECONDS)
        with suppress(OSError):
            self._output.warn("some workloads could not be removed in time; see 'podman ps'")

    def _print_status(self, text: str) -> None:
        if not self._output.quiet:
            with suppress(OSError):  # the clean-up must continue without a terminal
                self._output.stderr_line(text)


async def _agent_names(session: Session) -> list[str]:
    """The agent names of the workloads after their templates are rendered."""
    state = await asyncio.to_thread(session.complete_state, "effectiveState.workloads.*.agent")
    names = {workload.agent for workload in state.effectiveState.workloads.workloads.values()} - {""}
    return sorted(names) or [DEFAULT_AGENT]


def _has_initial_workload(state: base.CompleteState) -> bool:
    return any(state_text(execution) == "Pending(Initial)" for _, execution in workload_instances(state.workloadStates))
