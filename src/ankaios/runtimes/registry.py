"""Makes the runtime connectors of an agent.

Input: names from the configuration, the run folder and the name of the agent. Output: connectors by name. Both podman
connectors share one `Podman`, so that they share its listing and the limit of concurrent calls. Connectors that are not
used are not loaded.
"""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ankaios.runtimes.child_process import is_installed
from ankaios.runtimes.connectors import Connectors
from ankaios.runtimes.runtime_connector import RuntimeConnector

if TYPE_CHECKING:
    from ankaios.runtimes.podman.early_listing import EarlyListing
    from ankaios.runtimes.podman.podman_runtime import Podman
    from ankaios.runtimes.podman.podman_settings import PodmanSettings

LOAD_PODMAN_AFTER = 0.1
RUNTIME_NAMES = ("podman", "podman-kube", "containerd", "native")

_log = logging.getLogger(__name__)


def make_connectors(
    names: Iterable[str],
    run_folder: Path,
    agent_name: str,
    podman: "PodmanSettings | None" = None,
    early: "EarlyListing | None" = None,
) -> Connectors:
    """Unknown names are skipped with a warning. `early` is a listing of podman's containers that is already running.

    A node without nerdctl has no runtime 'containerd'. A missing podman is not checked: it may be installed later, and
    the states of its workloads show that it is missing.
    """
    native_folder = run_folder / f"{agent_name}_native"
    makers = {
        **_podman_makers(podman, early),
        "containerd": _containerd,
        "native": lambda: _native(native_folder),
    }
    enabled: dict[str, Callable[[], RuntimeConnector]] = {}
    for name in names:
        maker = makers.get(name)
        if maker is None:
            _log.warning("unknown runtime '%s' is skipped; known are %s", name, ", ".join(RUNTIME_NAMES))
        elif name == "containerd" and not is_installed("nerdctl"):
            _log.info("runtime 'containerd' is not enabled: the program nerdctl is not installed")
        else:
            enabled[name] = maker
    # Without the native runtime, an agent needs 0.3 MiB less.
    connectors = Connectors(enabled, {"native": lambda: not os.path.lexists(native_folder)})
    waiting = next((name for name in ("podman", "podman-kube") if name in connectors), None)
    if early is not None and waiting is not None:
        # The first listing loads it as well. By then the hello of the agent is sent, which loading would delay by 9 ms.
        asyncio.get_running_loop().call_later(LOAD_PODMAN_AFTER, lambda: connectors[waiting])
    return connectors


def _podman_makers(
    settings: "PodmanSettings | None", early: "EarlyListing | None"
) -> dict[str, Callable[[], RuntimeConnector]]:
    @cache
    def shared() -> "Podman":
        from ankaios.runtimes.podman.podman_cli import PodmanCli
        from ankaios.runtimes.podman.podman_runtime import Podman
        from ankaios.runtimes.podman.podman_settings import PodmanSettings

        return Podman(PodmanCli(settings or PodmanSettings(), early))

    def podman() -> RuntimeConnector:
        from ankaios.runtimes.podman.podman_runtime import PodmanRuntime

        return PodmanRuntime(shared())

    def podman_kube() -> RuntimeConnector:
        from ankaios.runtimes.podman.podman_kube_runtime import PodmanKubeRuntime

        return PodmanKubeRuntime(shared())

    return {"podman": podman, "podman-kube": podman_kube}


def _containerd() -> RuntimeConnector:
    from ankaios.runtimes.containerd.containerd_runtime import ContainerdRuntime
    from ankaios.runtimes.containerd.nerdctl_cli import NerdctlCli

    return ContainerdRuntime(NerdctlCli())


def _native(folder: Path) -> RuntimeConnector:
    from ankaios.runtimes.native.native_runtime import NativeRuntime

    return NativeRuntime(folder)
