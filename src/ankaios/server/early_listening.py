"""Listens before anything else is loaded, so that clients that start together with the server are not refused.

Input: the arguments of the program, the config file, a socket of systemd. Output: a listening socket, whose connections
wait until the server is ready; or None if the arguments need the complete parser, which then reports what is wrong.
Owns nothing. Imports as little as possible, because everything that is imported here delays the first connection.
"""

import os
import socket

from ankaios.common.listening_socket import bind_socket, inherited_socket

DEFAULT_ADDRESS = "127.0.0.1:25551"
DEFAULT_CONFIG_FILE = "/etc/ankaios/ank-server.conf"
_WITH_VALUE = {"-a": "address", "--address": "address", "-x": "config", "--server-config": "config"}
_OTHERS_WITH_VALUE = ("-m", "--startup-manifest", "-c", "--startup-config")
_END = ("-h", "--help", "-V", "--version")


def listen_early(arguments: list[str]) -> tuple[socket.socket, str] | None:
    """Return a listening socket and its address; the address is empty if systemd has chosen it.

    Errors are not reported here: the complete parser and the later attempt to listen do it.
    """
    try:
        if (inherited := inherited_socket()) is not None:
            return inherited, ""
        text = early_address(arguments)
        return (_bind(text), text) if text is not None else None
    except (OSError, ValueError, OverflowError):
        return None


def early_address(arguments: list[str]) -> str | None:
    """Return the address in the arguments, or else in the config file; None if this is not obvious."""
    values: dict[str, str] = {}
    remaining = iter(arguments)
    for argument in remaining:
        name, has_value, value = argument.partition("=")
        if argument in _END or (argument.startswith("-") and not argument.startswith("--") and len(argument) > 2):
            return None
        if name in _WITH_VALUE:
            values[_WITH_VALUE[name]] = value if has_value else next(remaining, "")
        elif argument in _OTHERS_WITH_VALUE:
            next(remaining, None)
    return values["address"] if "address" in values else _address_in(values.get("config"))


def _address_in(config: str | None) -> str:
    path = config or DEFAULT_CONFIG_FILE
    if not os.path.exists(path):  # noqa: PTH110, pathlib takes time to load
        return DEFAULT_ADDRESS
    import tomllib  # not needed without a config file

    with open(path, "rb") as file:  # noqa: PTH123
        return str(tomllib.load(file).get("address", DEFAULT_ADDRESS))


def _bind(text: str) -> socket.socket:
    """Names are not looked up: only an IP address is valid here."""
    host, _, port = text.rpartition(":")
    is_v6 = host.startswith("[") and host.endswith("]")
    host = host[1:-1] if is_v6 else host
    socket.inet_pton(socket.AF_INET6 if is_v6 else socket.AF_INET, host)
    return bind_socket(host, int(port))
