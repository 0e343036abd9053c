"""Tells systemd that the process is ready, alive or ending; does nothing where no systemd asks.

The protocol is one datagram to the socket that `NOTIFY_SOCKET` names; `WATCHDOG_USEC` says how often a sign of life is
wanted. A sign is sent by the event loop itself, so a loop that hangs is a process that systemd restarts.
"""

import asyncio
import os
import socket

READY = "READY=1"
STOPPING = "STOPPING=1"
ALIVE = "WATCHDOG=1"


def notify(message: str) -> bool:
    """Whether somebody was there to be told."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    if address.startswith("@"):
        address = "\0" + address[1:]
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        # One sign of life among many may be lost; it must not make us wait for a systemd that is busy.
        channel.setblocking(message != ALIVE)
        try:
            channel.sendto(message.encode(), address)
        except OSError:
            return False
    return True


def watchdog_interval() -> float | None:
    """Half the time after which systemd gives up, in seconds; None if it does not watch this process."""
    if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    try:
        microseconds = int(os.environ.get("WATCHDOG_USEC", ""))
    except ValueError:
        return None
    return microseconds / 2_000_000 if microseconds > 0 else None


async def keep_watchdog_calm() -> None:
    """Runs for ever if systemd watches this process, else ends at once."""
    interval = watchdog_interval()
    while interval is not None:
        notify(ALIVE)
        await asyncio.sleep(interval)
