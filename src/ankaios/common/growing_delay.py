"""The delay before the next attempt. Input: the number of failures, and limits. Output: seconds."""

_MOST_DOUBLINGS = 20


def growing_delay(failures: int, first: float, longest: float) -> float:
    """Return the delay after this number of failures in a row: it doubles with each failure up to the longest.

    >>> [growing_delay(failures, 0.5, 3.0) for failures in (1, 2, 3, 4, 1000)]
    [0.5, 1.0, 2.0, 3.0, 3.0]
    """
    return float(min(longest, first * 2 ** min(failures - 1, _MOST_DOUBLINGS)))
