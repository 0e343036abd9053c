"""Reports to systemd that the process is ready, alive or stopping. Without systemd nothing is sent.

A report is one datagram to the socket `NOTIFY_SOCKET`; `WATCHDOG_USEC` is the interval of the watchdog. The event loop
itself sends the pings, so systemd restarts a process whose loop hangs.
Owns the environment variables of systemd once they are hidden from child processes.
"""

import asyncio
import os
import socket

READY = "READY=1"
STOPPING = "STOPPING=1"
ALIVE = "WATCHDOG=1"
_TIMEOUT = 5.0  # seconds
_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "INVOCATION_ID")
_hidden: dict[str, str] = {}


def hide_from_children() -> None:
    """Remove the variables of systemd from the environment of programs that this process starts.

    Otherwise podman would pass the socket to containers and leave their monitors in the cgroup of the agent, so that
    the journal shows their output as output of the agent.
    """
    _hidden.update({name: os.environ.pop(name) for name in _VARIABLES if name in os.environ})


def _variable(name: str) -> str:
    return _hidden.get(name) or os.environ.get(name, "")


def notify(message: str) -> bool:
    """Return whether the message was sent."""
    address = _variable("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        # A single ping may be lost. It must not block the event loop while systemd is busy.
        channel.settimeout(0.0 if message == ALIVE else _TIMEOUT)
        try:
            channel.sendto(message.encode(), address)
        except OSError:
            return False
    return True


def watchdog_interval() -> float | None:
    """Return half of the watchdog timeout in seconds; None if systemd does not watch this process."""
    if _variable("WATCHDOG_PID") not in ("", str(os.getpid())):
        return None
    try:
        microseconds = int(_variable("WATCHDOG_USEC"))
    except ValueError:
        return None
    return microseconds / 2_000_000 if microseconds > 0 else None


def dump_traceback_on_abort() -> None:
    """Write a traceback to the journal when systemd ends a hanging process with SIGABRT. Call this before `READY`."""
    if watchdog_interval() is not None:
        import faulthandler

        faulthandler.enable()


async def send_watchdog_pings() -> None:
    """Run until cancelled if systemd watches this process; otherwise return immediately."""
    interval = watchdog_interval()
    while interval is not None:
        notify(ALIVE)
        await asyncio.sleep(interval)
