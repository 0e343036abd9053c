"""Drops the privileges of the process that becomes a native workload. Part of its shim, so it imports few modules.

Input: the user, the capabilities, and whether the process may gain privileges again. Output: the changed process.
"""

from __future__ import annotations

import errno
import os
from typing import Any

from ankaios.runtimes.kernel import Kernel

SET_KEEP_CAPABILITIES, DROP_FROM_BOUNDING_SET = 8, 24
SET_CHILD_SUBREAPER, SET_NO_NEW_PRIVILEGES = 36, 38
AMBIENT, AMBIENT_RAISE = 47, 2
LAST_CAPABILITY = 63


def needs_kernel(order: dict[str, Any]) -> bool:
    """Return whether `Kernel` is needed. Most workloads of root start faster without loading it."""
    return order["capabilities"] is not None or order["no_new_privileges"]


def drop_privileges(order: dict[str, Any], kernel: Kernel | None) -> None:
    """Change to the user of the workload, with the permitted capabilities."""
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
            if fault.errno == errno.EINVAL:  # the kernel has no capability with this or a higher number
                return
            raise OSError(fault.errno, f"cannot limit the capabilities: {fault.strerror}") from fault


def change_user(user: tuple[int, int, list[int]], kept: list[int] | None, kernel: Kernel | None) -> None:
    """Change the user. A user other than root has only the capabilities in the ambient set."""
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
