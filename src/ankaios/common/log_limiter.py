"""Limits log lines that other processes can cause.

Input: log lines and the time. Output: at most a few lines in a period; the first line after a period with suppressed
lines states their number. Owns the counters of one source of lines.
"""

import logging
import time
from collections.abc import Callable

_LINES, _PERIOD = 10, 10.0


class LimitedLog:
    """Lines of one kind.

    >>> limited = LimitedLog(logging.getLogger("example"), "connections were rejected")
    >>> limited.warning("Rejected a connection from %s.", "10.0.0.1")
    """

    def __init__(self, log: logging.Logger, suppressed_text: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`suppressed_text` completes the sentence "<number> more ...", for example "connections were rejected"."""
        self._log = log
        self._suppressed_text = suppressed_text
        self._clock = clock
        self._period_end = 0.0
        self._written = self._suppressed = 0

    def warning(self, text: str, *values: object) -> None:
        now = self._clock()
        if now >= self._period_end:
            self._period_end = now + _PERIOD
            self._written = 0
            if self._suppressed:
                self._log.warning("%d more %s.", self._suppressed, self._suppressed_text)
                self._suppressed = 0
        if self._written < _LINES:
            self._written += 1
            self._log.warning(text, *values)
        else:
            self._suppressed += 1
