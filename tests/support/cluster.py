"""A real cluster for system tests: `ank-server`, agents and `ank` are separate processes, removed at the end.

    with Cluster() as cluster:
        cluster.start_server(manifest)
        cluster.start_agent("agent_A", runtimes=["native"])
        cluster.ank("apply", str(path))
        cluster.wait_for("web", "Running(Ok)")

Every process writes its output to a file in `cluster.folder`; a failing wait shows the ends of these files.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ankaios.cli.connection import commander_hello
from ankaios.cli.session import Session
from ankaios.common.errors import AnkaiosError
from ankaios.common.model.state import COMPLETE_STATE
from ankaios.middleware.blocking_client import connect_blocking
from ankaios.middleware.connecting import CannotConnect, ConnectionSettings
from ankaios.middleware.methods import Method
from tests.support.leftovers import end_native_workloads

WAIT_SECONDS = 30.0
POLL_SECONDS = 0.05
ANSWER_MS = 10_000
RESERVED_PORTS = range(25_551, 25_560)  # the default of the server, and those that the documentation shows


def free_port() -> int:
    """A port that stays free while its server is not running.

    The kernel gives ports of another range to outgoing connections. A client that tries to reach a killed server could
    get the port of this server from that range, and even connect to itself; then the server cannot start again.
    """
    first_of_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    while True:
        port = random.SystemRandom().randrange(10_000, max(first_of_clients, 20_000))
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in RESERVED_PORTS:
            return port


class Cluster:
    """Owns the processes it starts and a temporary folder, below `parent` if given; ends and removes both.

    `python`: how to start Python, e.g. as another user.
    """

    def __init__(
        self,
        environ: Mapping[str, str] | None = None,
        python: Sequence[str] = (sys.executable,),
        parent: Path | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ank-cluster-", dir=parent, ignore_cleanup_errors=True)
        self._python = python
        self.folder = Path(self._folder.name)
        self.port = free_port()
        self.environ = {**(os.environ if environ is None else environ), "NO_COLOR": "1"}
        self.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        self.server: subprocess.Popen[bytes] | None = None
        self.agents: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # --- processes

    def _start(self, name: str, module: str, *arguments: str, prefix: Sequence[str] = ()) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("ab")
        with log:
            return subprocess.Popen(
                [*prefix, *self._python, "-m", module, *arguments],
                env=self.environ,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def start_server(self, manifest: str | None = None, *more: str) -> None:
        arguments = ["--insecure", "--address", f"127.0.0.1:{self.port}", *more]
        if manifest is not None:
            arguments += ["--startup-manifest", str(self.write("startup.yaml", manifest))]
        self.server = self._start("server", "ankaios.server", *arguments)
        self.wait_until("the server answers", self._server_answers)

    def _server_answers(self) -> bool:
        """A server that only listens may still close connections."""
        assert self.server is not None
        if self.server.poll() is not None:
            raise AssertionError(f"the server ended with {self.server.returncode}\n{self.logs()}")
        try:
            self.state("agents")
        except CannotConnect:
            return False
        except AnkaiosError:  # any answer shows that the server responds
            pass
        return True

    def start_agent(self, name: str, *more: str, runtimes: Sequence[str] | None = None) -> None:
        self.launch_agent(name, *more, runtimes=runtimes)
        self.wait_until(f"agent {name} is connected", lambda: name in self.state("agents").get("agents", {}))

    def launch_agent(self, name: str, *more: str, runtimes: Sequence[str] | None = None) -> None:
        """There need not be a server yet."""
        run_folder = self.folder / "run"
        run_folder.mkdir(exist_ok=True)
        settings = "version = 'v1'\n"
        if runtimes is not None:
            settings += f"runtimes = {list(runtimes)}\n"
        config = self.write(f"{name}.conf", settings)
        self.agents[name] = self._start(
            name, "ankaios.agent", "--insecure", "--name", name, "--server-url", self.url,
            "--run-folder", str(run_folder), "--agent-config", str(config), *more,
        )  # fmt: skip

    def kill_server(self, with_signal: int = signal.SIGKILL) -> None:
        assert self.server is not None
        _end(self.server, with_signal)

    def kill_agent(self, name: str, with_signal: int = signal.SIGKILL) -> int:
        agent = self.agents.pop(name)
        _end(agent, with_signal)
        return agent.returncode

    def close(self) -> None:
        for process in [*self.agents.values(), *([self.server] if self.server else [])]:
            _end(process, signal.SIGTERM)
        end_native_workloads(self.folder / "run")
        self._folder.cleanup()

    # --- queries

    def ank(self, *arguments: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.ank_command(*arguments),
            env=self.environ, capture_output=True, text=True, input=stdin, timeout=WAIT_SECONDS * 2, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise AssertionError(
                f"ank {' '.join(arguments)} ended with {done.returncode}: {done.stderr}\n{self.logs()}"
            )
        return done

    def ank_command(self, *arguments: str) -> list[str]:
        return [*self._python, "-m", "ankaios", "--insecure", "--server-url", self.url, *arguments]

    def apply(self, manifest: str, *more: str) -> str:
        return self.ank("apply", str(self.write("apply.yaml", manifest)), *more).stdout

    def state(self, *masks: str) -> dict[str, Any]:
        """As `ank get state` prints it, but without a process for each query of a wait."""
        with connect_blocking(ConnectionSettings(self.url), Method.CLI, commander_hello()) as connection:
            return COMPLETE_STATE.to_form(Session(connection, ANSWER_MS).complete_state(*masks))

    def states(self) -> dict[str, tuple[str, str]]:
        """Workload name -> ("State(Sub)", additional information); the last one wins if there are several instances."""
        found = {}
        for workloads in self.state("workloadStates").get("workloadStates", {}).values():
            for name, instances in workloads.items():
                for state in instances.values():
                    words = state["state"], state["subState"]
                    text = words[0] if words[0] == words[1] else f"{words[0]}({words[1]})"
                    found[name] = (text, state.get("additionalInfo", ""))
        return found

    def state_of(self, workload: str) -> tuple[str, str]:
        """As in `states`; ("Removed", "") if it has none, e.g. for a moment while it is restarted."""
        return self.states().get(workload, ("Removed", ""))

    # --- waiting

    def wait_for(self, workload: str, *states: str, seconds: float = WAIT_SECONDS) -> str:
        """Until it is in one of the states (`Removed`: until it is gone); returns the additional information."""
        seen: list[tuple[str, str]] = []

        def reached() -> bool:
            now = self.state_of(workload)
            if not seen or seen[-1] != now:
                seen.append(now)
            return now[0] in states

        self.wait_until(f"{workload} is {' or '.join(states)}", reached, seconds, lambda: f"it was {seen}")
        return seen[-1][1]

    def wait_until(self, what: str, condition: Any, seconds: float = WAIT_SECONDS, more: Any = lambda: "") -> None:
        until = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > until:
                raise AssertionError(f"waited {seconds} s in vain until {what}; {more()}\n{self.logs()}")
            time.sleep(POLL_SECONDS)

    # --- files

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        return path

    def logs(self) -> str:
        parts = []
        for path in sorted(self.folder.glob("*.log")):
            parts.append(f"--- {path.name}\n" + "\n".join(path.read_text(errors="replace").splitlines()[-40:]))
        return "\n".join(parts)

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _end(process: subprocess.Popen[bytes], with_signal: int) -> None:
    if process.poll() is None:
        process.send_signal(with_signal)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
