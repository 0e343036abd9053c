"""The settings for observation that server and agent share: the address of metrics, and the format of log lines.

Input: an argument parser; values of flag, environment and config file. Output: checked values.
"""

import argparse

from ankaios.common.config import CONFIG_CONTEXT
from ankaios.common.errors import StartupFailed

LOG_FORMATS = ("text", "json")
_EXAMPLE = "expected HOST:PORT, such as 127.0.0.1:9100 or [::1]:9100"


def parse_metrics_address(text: str) -> tuple[str, int]:
    """`127.0.0.1:9100`, `[::1]:9100` or `localhost:9100`. Raises ValueError with the reason."""
    host, colon, port = text.rpartition(":")
    has_brackets = host.startswith("[") and host.endswith("]")
    bare = host[1:-1] if has_brackets else host
    if not colon or not bare or not port.isascii() or not port.isdigit() or len(port) > 5 or int(port) > 65535:
        raise ValueError(_EXAMPLE)
    if has_brackets != (":" in bare) or any(character.isspace() or character in "/@" for character in bare):
        raise ValueError(_EXAMPLE)
    return bare, int(port)


def metrics_setting(text: str) -> str | None:
    """Check the value from flag, environment or file. Return None if metrics are disabled."""
    if not text:
        return None
    try:
        parse_metrics_address(text)
    except ValueError as fault:
        raise StartupFailed(CONFIG_CONTEXT, f"'metrics' is '{text}': {fault}") from fault
    return text


def log_format_setting(text: str) -> str:
    if text not in LOG_FORMATS:
        raise StartupFailed(CONFIG_CONTEXT, f"'log_format' is '{text}': expected {' or '.join(LOG_FORMATS)}")
    return text


def add_observation_flags(parser: argparse.ArgumentParser, env_prefix: str) -> None:
    parser.add_argument(
        "--metrics",
        metavar="HOST:PORT",
        type=_metrics_flag,
        help=f"serve metrics for Prometheus there [env: {env_prefix}_METRICS]",
    )
    parser.add_argument(
        "--log-format",
        choices=LOG_FORMATS,
        metavar="FORMAT",
        help=f"format of log lines, text or json [env: {env_prefix}_LOG_FORMAT]",
    )


def _metrics_flag(text: str) -> str:
    try:
        parse_metrics_address(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"invalid value '{text}': {fault}") from fault
    return text
