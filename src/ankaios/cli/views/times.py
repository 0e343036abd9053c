"""Times and spans as texts. Pure, except for `current_ms`."""

import time


def current_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def local_time(milliseconds: int) -> str:
    return f"{local_second(milliseconds)}.{milliseconds % 1000:03}"


def local_second(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(milliseconds / 1000))


def utc_second(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(milliseconds / 1000))


def utc_time(milliseconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(milliseconds / 1000)) + f".{milliseconds % 1000:03}Z"


def rfc3339_time(nanoseconds: int) -> str:
    """UTC in RFC 3339 format, with 0, 3, 6 or 9 digits after the second, as few as possible."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    digits = f"{rest:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    fraction = f".{digits}" if digits else ""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + fraction + "+00:00"


def since_text(milliseconds: int, now_ms: int) -> str:
    """`since 10:31:02 (3 s)`; empty if the time is unknown."""
    if not milliseconds:
        return ""
    clock = time.strftime("%H:%M:%S", time.localtime(milliseconds / 1000))
    return f"since {clock} ({span_text(now_ms - milliseconds)})"


def span_text(milliseconds: int) -> str:
    seconds = max(0, milliseconds) // 1000
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
