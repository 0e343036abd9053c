"""Takes privileges from the process that becomes a native workload. Part of its shim, so it imports little.

Input: the user, the capabilities and whether privileges may be gained again. The calls are those of the kernel: Python
has no names for them.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SET_KEEP_CAPABILITIES, DROP_FROM_BOUNDING_SET = 8, 24
SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVILEGES = 36, 38
AMBIENT, AMBIENT_RAISE = 47, 2
CAPABILITY_VERSION = 0x20080522
LAST_CAPABILITY = 63


class Kernel:
    """Made before the user is changed: later the modules that it needs may be out of reach."""

    def __init__(self) -> None:
        import ctypes

        self._ctypes = ctypes
        self._libc = ctypes.CDLL(None, use_errno=True)

    def control(self, *arguments: int) -> None:
        padded = [self._ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:5]]
        self._check(self._libc.prctl(*padded))

    def set_capabilities(self, mask: int) -> None:
        """Effective, permitted and inheritable ones of this process."""
        header = (self._ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
        low, high = mask & 0xFFFFFFFF, mask >> 32
        self._check(self._libc.capset(header, (self._ctypes.c_uint32 * 6)(low, low, low, high, high, high)))

    def _check(self, result: int) -> None:
        if result:
            number = self._ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def needs_kernel(order: dict[str, Any]) -> bool:
    """Most workloads of root do without, and start faster."""
    return order["capabilities"] is not None or order["no_new_privileges"]


def give_up_privileges(order: dict[str, Any], kernel: Kernel | None) -> None:
    """Become the user of the workload, with the capabilities that it may have."""
    kept: list[int] | None = order["capabilities"]
    if kernel and kept is not None and os.geteuid() == 0:
        limit_capabilities(kept, kernel)
    user = order["user"]
    if user is not None and (user[0] != os.geteuid() or user[1] != os.getegid()):
        change_user(user, kept if user[0] != 0 else None, kernel)
    if kernel and order["no_new_privileges"]:
        kernel.control(SET_NO_NEW_PRIVILEGES, 1)


def limit_capabilities(kept: list[int], kernel: Kernel) -> None:
    for number in range(LAST_CAPABILITY + 1):
        if number in kept:
            continue
        try:
            kernel.control(DROP_FROM_BOUNDING_SET, number)
        except OSError as fault:
            if fault.errno == errno.EINVAL:  # the kernel has no capability of this number, and none above it
                return
            raise OSError(fault.errno, f"cannot limit the capabilities: {fault.strerror}") from fault


def change_user(user: tuple[int, int, list[int]], kept: list[int] | None, kernel: Kernel | None) -> None:
    """Another user than root has only the capabilities that are handed on to it."""
    uid, gid, groups = user
    if kernel and kept:
        kernel.control(SET_KEEP_CAPABILITIES, 1)
    os.setgroups(groups)
    os.setgid(gid)
    os.setuid(uid)
    if kernel and kept:
        kernel.set_capabilities(sum(1 << number for number in kept))
        for number in kept:
            kernel.control(AMBIENT, AMBIENT_RAISE, number)
