"""`ank-server backup FILE`: copies the stored state while a server uses it.

Input: the storage, as given to the server. Output: a database that can be used in its place, or a reason why not.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from ankaios.common.config import choose, load_config_file
from ankaios.common.errors import AnkaiosError, Rejected
from ankaios.server import settings
from ankaios.storage.storage_url import EtcdLocation, StorageLocation, parse_storage_url


def run_backup(arguments: Sequence[str]) -> int:
    flags = _parser().parse_args(arguments)
    try:
        file = load_config_file(flags.server_config, [settings.DEFAULT_CONFIG_FILE])
        url = choose(flags.storage, "ANKSERVER_STORAGE", file, "storage", "memory:")
        print(_back_up(parse_storage_url(url), Path(flags.file)))
    except AnkaiosError as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    return 0


def _back_up(location: StorageLocation | None, target: Path) -> str:
    if isinstance(location, EtcdLocation):
        endpoints = ",".join(endpoint.authority for endpoint in location.endpoints)
        raise Rejected(f"etcd has its own backup: etcdctl --endpoints {endpoints} snapshot save {target}")
    if location is None:
        raise Rejected("nothing is stored: name the storage of the server with --storage or --server-config")
    from ankaios.storage.sqlite.backup import back_up_database

    summary = back_up_database(location.path, target.absolute())
    return f"Stored revision {summary.last_revision} of '{location.path}' in '{target}'."


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ank-server backup",
        description="Copy the stored state to a file, also while the server runs. To restore it, stop the server and "
        "put the file in the place of the database.",
        epilog="example: ank-server backup /mnt/usb/state.db --storage sqlite:/var/lib/ankaios/state.db",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("file", metavar="FILE", help="the backup; an existing file is replaced when the copy is complete")
    add("--storage", metavar="URL", help="storage of the server [env: ANKSERVER_STORAGE]")
    add(
        "-x",
        "--server-config",
        metavar="PATH",
        type=Path,
        help=f"config file of the server [default: {settings.DEFAULT_CONFIG_FILE}]",
    )
    return parser
