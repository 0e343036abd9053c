"""Flow control: how much either side may send, of a stream or of the whole connection.

Comes in: sizes of what was sent, received and used. Goes out: what may be sent, and when the peer is told to go on.
Owns one number or two for each window.
"""

from __future__ import annotations

LARGEST_WINDOW = 2**31 - 1
DEFAULT_WINDOW = 65535


class SendWindow:
    """What the peer takes. `left` gets negative when it makes its window smaller after the fact."""

    __slots__ = ("left",)

    def __init__(self, left: int) -> None:
        self.left = left

    def grow(self, by: int) -> bool:
        """False if the peer makes it larger than any window may be."""
        self.left += by
        return self.left <= LARGEST_WINDOW


class ReceiveWindow:
    """What we take: received bytes fill it until they are used."""

    __slots__ = ("_left", "_unannounced")

    def __init__(self, size: int) -> None:
        self._left = size  # as the peer knows it
        self._unannounced = 0

    def fill(self, size: int) -> bool:
        """False if the peer was not allowed to send that."""
        self._left -= size
        return self._left >= 0

    def use(self, size: int) -> int:
        """By how much the peer's view of the window is to be raised now; 0 if that can wait.

        It can wait while the peer has more left than it would gain: one update for about half a window, but at once
        when it may be short of room, however much somebody else leaves unread.
        """
        self._unannounced += size
        if self._unannounced < self._left:
            return 0
        gain, self._unannounced = self._unannounced, 0
        self._left += gain
        return gain
