"""Converts the texts of arguments into values. Each function raises ValueError with the reason for an invalid text."""

_MOST_DAYS = 36_500
_TIME_FORMS = (
    "expected a time such as 2026-03-01T08:00:00Z (RFC 3339), the seconds since 1970, or a duration before now such "
    "as 90s, 10m or 1h30m"
)


def milliseconds(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError("invalid digit found in string" if text else "cannot parse integer from empty string")
    if int(text) >= 2**64:
        raise ValueError("number too large to fit in target type")
    return int(text)


def line_count(text: str) -> int:
    try:
        count = int(text)
    except ValueError:
        raise ValueError("invalid digit found in string") from None
    if not -(2**31) <= count < 2**31:
        raise ValueError("number too large to fit in target type")
    return count


def revision_number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:20]) >= 2**63:
        raise ValueError("expected a whole number, see 'ank history'")
    return int(text)


def days(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= _MOST_DAYS:
        raise ValueError(f"expected a whole number from 1 to {_MOST_DAYS}")
    return int(text)


def tag(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"invalid KEY=value: no `=` found in `{text}`")
    return key, value


def update_mask(text: str) -> str:
    """The server ignores an empty mask, so the update would change nothing."""
    if not text.strip():
        raise ValueError("an empty mask selects nothing; name a part of the state, such as desiredState.workloads.web")
    return text


def duration_ms(text: str) -> int:
    """`90s`, `500ms`, `2m`, `1h30m`."""
    import re

    found = re.fullmatch(r"(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s)?(?:(\d{1,9})ms)?", text)
    if not text or found is None:
        raise ValueError("expected a duration such as 90s, 500ms, 2m or 1h30m")
    hours, minutes, seconds, rest = (int(number or 0) for number in found.groups())
    return ((hours * 60 + minutes) * 60 + seconds) * 1000 + rest


def milliseconds_since_1970(text: str) -> int:
    """A point in time for requests to the server."""
    from datetime import UTC, datetime

    given = point_in_time(text)
    if given.isdigit():
        return int(given[:12]) * 1000
    found = datetime.fromisoformat(given.upper())
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def point_in_time(text: str) -> str:
    """A time stays as it is. A duration becomes the time that long ago, because not all runtimes accept durations."""
    import re
    from datetime import UTC, datetime, timedelta

    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text)
    try:
        if text and found:
            hours, minutes, seconds = (int(number or 0) for number in found.groups())
            earlier = datetime.now(UTC) - timedelta(hours=hours, minutes=minutes, seconds=seconds)
            return earlier.isoformat(timespec="seconds")
        if not (text.isascii() and text.isdigit()):
            datetime.fromisoformat(text.upper())
    except (ValueError, OverflowError):
        raise ValueError(_TIME_FORMS) from None
    return text
