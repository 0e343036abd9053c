"""Calls the kernel where Python has no function for it. Part of the shim of native workloads: loads few modules."""

from __future__ import annotations

import os
from typing import Any

CAPABILITY_VERSION = 0x20080522


class Kernel:
    """System calls. Create it before the user is changed: afterwards its modules may not be readable."""

    def __init__(self) -> None:
        import ctypes  # loaded only if it is needed, because it is slow

        self._ctypes = ctypes
        self._libc = ctypes.CDLL(None, use_errno=True)

    def call(self, name: str, *arguments: Any, what: str = "") -> int:
        """Raises OSError; its message begins with `what`."""
        result: int = getattr(self._libc, name)(*arguments)
        if result < 0:
            number = self._ctypes.get_errno()
            raise OSError(number, f"{what}: {os.strerror(number)}" if what else os.strerror(number))
        return result

    def control(self, *arguments: int) -> None:
        self.call("prctl", *[self._ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:5]])

    def set_capabilities(self, mask: int) -> None:
        """Set the effective, permitted and inheritable capabilities of this process."""
        header = (self._ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
        low, high = mask & 0xFFFFFFFF, mask >> 32
        self.call("capset", header, (self._ctypes.c_uint32 * 6)(low, low, low, high, high, high))
