"""How long a leader may rely on its lease. Pure; all times are seconds of one clock.

The lease ends in etcd one time to live after etcd received the last renewal, which is later than the moment before the
renewal was sent. A leader counts from that earlier moment and stops a safety margin before the end.
"""

DEFAULT_SECONDS = 2  # the shortest lease that etcd grants with its default settings
_MARGIN = 0.2  # of the time to live: for clocks that run at different speeds, and for commands that were already sent
_RENEWALS = 4  # in one time to live


def valid_until(sent_at: float, seconds: int) -> float:
    """Until when a lease can be relied on whose renewal was sent at `sent_at`."""
    return sent_at + seconds * (1 - _MARGIN)


def renewal_interval(seconds: int) -> float:
    return seconds / _RENEWALS


def attempt_limit(seconds: int) -> float:
    """How long one member may take to respond, so that there is time to ask the others."""
    return seconds / (2 * _RENEWALS)
