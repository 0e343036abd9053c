"""Tells systemd that the process is ready, alive or ending; does nothing where no systemd asks.

The protocol is one datagram to the socket that `NOTIFY_SOCKET` names; `WATCHDOG_USEC` says how often a sign of life is
wanted. A sign is sent by the event loop itself, so a loop that hangs is a process that systemd restarts.
Owned: what systemd told this process in its environment, once it is kept from the programs that this process starts.
"""

import asyncio
import os
import socket

READY = "READY=1"
STOPPING = "STOPPING=1"
ALIVE = "WATCHDOG=1"
_PATIENCE = 5.0  # seconds
_FOR_US_ALONE = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "INVOCATION_ID")
_kept: dict[str, str] = {}


def keep_from_children() -> None:
    """What systemd told this process is not for the programs it starts.

    Podman would hand the socket on to containers and, being asked to run by a service itself, leave their monitors in
    the control group of the agent, so that the journal shows what they write as words of the agent.
    """
    _kept.update({name: os.environ.pop(name) for name in _FOR_US_ALONE if name in os.environ})


def _told(name: str) -> str:
    return _kept.get(name) or os.environ.get(name, "")


def notify(message: str) -> bool:
    """Whether somebody was there to be told."""
    address = _told("NOTIFY_SOCKET")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        # One sign of life among many may be lost; it must not make us wait for a systemd that is busy.
        channel.settimeout(0.0 if message == ALIVE else _PATIENCE)
        try:
            channel.sendto(message.encode(), address)
        except OSError:
            return False
    return True


def watchdog_interval() -> float | None:
    """Half the time after which systemd gives up, in seconds; None if it does not watch this process."""
    if _told("WATCHDOG_PID") not in ("", str(os.getpid())):
        return None
    try:
        microseconds = int(_told("WATCHDOG_USEC"))
    except ValueError:
        return None
    return microseconds / 2_000_000 if microseconds > 0 else None


def tell_where_it_hangs() -> None:
    """systemd ends a hanging process by SIGABRT: then the journal says where it hung. To be called before `READY`."""
    if watchdog_interval() is not None:
        import faulthandler

        faulthandler.enable()


async def keep_watchdog_calm() -> None:
    """Runs for ever if systemd watches this process, else ends at once."""
    interval = watchdog_interval()
    while interval is not None:
        notify(ALIVE)
        await asyncio.sleep(interval)
