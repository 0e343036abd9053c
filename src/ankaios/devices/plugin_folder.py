"""The folder in which device plugins register, with the registration socket, as a kubelet has it.

Cheap on purpose: an agent opens it at its start, and loads what serves it when the first plugin connects.
"""

import logging
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from ankaios.common.errors import Unavailable
from ankaios.common.trusted_path import set_mode, untrusted_part

KUBELET_SOCKET = "kubelet.sock"
LONGEST_SOCKET_PATH = 107
LONGEST_SOCKET_NAME = 32

log = logging.getLogger(__name__)


def short_folder(folder: Path) -> Path:
    """The folder itself, or a shorter one if the paths of its sockets would be too long; the same at each start."""
    if _is_short_enough(folder):
        return folder
    import tempfile  # loaded late: paths are rarely so long, and these modules need 0.3 MiB
    from hashlib import blake2b

    digest = blake2b(os.fsencode(folder), digest_size=8).hexdigest()
    places = [place / f"ankaios-{digest}" for place in (Path(tempfile.gettempdir()), Path("/tmp"))]
    short = next(filter(_is_short_enough, places))
    log.warning("'%s' is too long for sockets, '%s' is used instead", folder, short)
    return short


def _is_short_enough(folder: Path) -> bool:
    return len(os.fsencode(folder)) + LONGEST_SOCKET_NAME < LONGEST_SOCKET_PATH


def open_plugin_folder(folder: Path) -> socket.socket:
    """Listen for registrations. Earlier sockets are removed; their plugins notice it and register again.

    If that is not possible, the folder is not left behind.
    """
    try:
        if fault := untrusted_part(folder):
            raise Unavailable(f"cannot use the plugin folder '{folder}': {fault}")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        set_mode(folder, 0o700)
        for path in folder.iterdir():
            if stat.S_ISSOCK(path.lstat().st_mode):
                path.unlink(missing_ok=True)
    except OSError as error:
        raise Unavailable(f"cannot use the plugin folder '{folder}': {error}") from error
    try:
        listener = bind_plugin_socket(folder / KUBELET_SOCKET)
    except Unavailable:
        with suppress(OSError):
            folder.rmdir()
        raise
    listener.listen(100)
    return listener


def bind_plugin_socket(path: Path) -> socket.socket:
    """A socket that only the owner can use, and that does not listen yet."""
    if len(os.fsencode(path)) > LONGEST_SOCKET_PATH:
        raise Unavailable(f"cannot listen at '{path}': longer than {LONGEST_SOCKET_PATH} bytes")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
    try:
        path.unlink(missing_ok=True)
        sock.bind(str(path))
        path.chmod(0o600)  # it does not listen yet; a umask would affect files of other threads
    except OSError as error:
        sock.close()
        raise Unavailable(f"cannot listen at '{path}': {error}") from error
    return sock
