"""Reads single keys from a terminal without waiting, and restores the terminal afterwards.

    with Keyboard() as keyboard:
        for key in keyboard.pressed(): ...

Keys are characters or one of the names `up`, `down`, `enter`, `escape`, `backspace`. Owns the mode of the terminal.
"""

import os
import select
import sys
import termios
import tty
from typing import Any, Self

_SEQUENCES = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
}
_ESCAPE = "\x1b"
_PIECE = 1024


def split_keys(text: str) -> list[str]:
    """The keys in what a terminal sent. Unknown sequences are left out."""
    keys = []
    while text:
        known = next((sequence for sequence in _SEQUENCES if text.startswith(sequence)), None)
        if known is not None:
            keys.append(_SEQUENCES[known])
            text = text[len(known) :]
        elif text.startswith(("\x1b[", "\x1bO")):
            end = next((place for place in range(2, len(text)) if text[place].isalpha() or text[place] == "~"), None)
            text = "" if end is None else text[end + 1 :]
        else:
            keys.append("escape" if text[0] == _ESCAPE else text[0])
            text = text[1:]
    return [key for key in keys if len(key) > 1 or key.isprintable()]


class Keyboard:
    def __init__(self) -> None:
        self._descriptor = sys.stdin.fileno()
        self._mode: list[Any] = []

    def __enter__(self) -> Self:
        self._mode = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._descriptor, termios.TCSADRAIN, self._mode)

    def pressed(self) -> list[str]:
        """The keys that were pressed since the last call; raises EOFError if the terminal is gone."""
        if not select.select([self._descriptor], [], [], 0)[0]:
            return []
        data = os.read(self._descriptor, _PIECE)
        if not data:
            raise EOFError
        return split_keys(data.decode(errors="ignore"))
