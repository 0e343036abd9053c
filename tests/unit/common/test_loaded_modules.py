"""What server and agent do not load for a start without devices, metrics, templates and TLS.

Each module in these lists takes time before the agent sends its hello, or memory as long as the program runs. ADR 52
lists what each of them costs.
"""

import subprocess
import sys

COMMON = {"shutil", "tempfile", "bz2", "lzma", "zlib", "random", "json", "shlex", "ryaml", "rich", "yaml", "tomllib"}
SERVER = {
    "ankaios.common.handlebars",
    "ankaios.common.metrics_endpoint",
    "ankaios.grpc.tls",
    "ankaios.server.core.change_plan",
    "ankaios.server.durable_serving",
}
AGENT = {
    "hashlib",
    "ankaios.agent.agent_manager",
    "ankaios.agent.metrics",
    "ankaios.agent.offline_store",
    "ankaios.common.metrics",
    "ankaios.devices.device_manager",
    "ankaios.grpc.tls",
    "ankaios.runtimes.native.native_runtime",
    "ankaios.runtimes.podman.podman_runtime",
}


def loaded(script: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-IS", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{script}\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_a_server_loads_no_optional_part() -> None:
    script = """
from ankaios.server.program import read_server_settings
import ankaios.server.shell
read_server_settings(["-k", "-a", "127.0.0.1:0"])
"""
    modules = loaded(script)
    assert "ankaios.server.core.ankaios_server" in modules
    assert not modules & (COMMON | SERVER)


def test_an_agent_loads_only_the_modules_of_its_hello() -> None:
    script = """
from ankaios.agent.settings import read_agent_settings
import ankaios.agent.__main__, ankaios.agent.agent
settings = read_agent_settings(["-k", "-n", "A"])
ankaios.agent.agent.connectors_for(settings)
ankaios.agent.agent.devices_for(settings)
"""
    modules = loaded(script)
    assert "ankaios.agent.server_link" in modules
    assert not modules & (COMMON | AGENT)
