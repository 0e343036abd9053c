"""Resource usage as short texts for tables: `1.50`, `12.5 MiB`, `3h 12m`."""

from ankaios.common.pb import ank_base_pb2 as base

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_PARTS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def usage_cells(usage: base.ResourceUsage | None) -> tuple[str, str, str]:
    """CPU in processors, memory, and time since the start."""
    if usage is None:
        return ("-", "-", "-")
    return (cpu_text(usage.cpuMillis), memory_text(usage.memoryBytes), time_text(usage.uptimeSeconds))


def cpu_text(millis: int) -> str:
    return f"{millis / 1000:.2f}"


def memory_text(number: float) -> str:
    unit = 0
    while number >= 1000 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.0f} {_UNITS[unit]}" if unit == 0 or number >= 100 else f"{number:.1f} {_UNITS[unit]}"


def time_text(seconds: int) -> str:
    """The two largest units: `3h 12m`."""
    parts: list[str] = []
    for size, unit in _PARTS:
        if seconds >= size or (size == 1 and not parts):
            parts.append(f"{seconds // size}{unit}")
            seconds %= size
        elif parts:
            parts.append(f"0{unit}")
        if len(parts) == 2:
            break
    return " ".join(parts)
