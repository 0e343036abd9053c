"""User and password for etcd, from a file or from the environment.

Input: the path of a file, and environment variables. Output: credentials, None if there are none, or `Rejected` with
the reason. The file is TOML with the keys `user` and `password`, and only its owner may read it.
"""

import stat
import tomllib
from collections.abc import Mapping
from pathlib import Path

from ankaios.common.errors import Rejected
from ankaios.storage.etcd.etcd_members import EtcdCredentials

USER_VARIABLE, PASSWORD_VARIABLE = "ANKSERVER_STORAGE_USER", "ANKSERVER_STORAGE_PASSWORD"


def read_etcd_credentials(file: Path | None, environ: Mapping[str, str]) -> EtcdCredentials | None:
    """The file is used if both are given."""
    if file is not None:
        return _from_file(file)
    user, password = environ.get(USER_VARIABLE), environ.get(PASSWORD_VARIABLE)
    if not user and not password:
        return None
    if not user or not password:
        missing = PASSWORD_VARIABLE if user else USER_VARIABLE
        raise Rejected(f"cannot authenticate with etcd: the environment variable {missing} is not set")
    return EtcdCredentials(user, password)


def _from_file(file: Path) -> EtcdCredentials:
    try:
        mode, values = file.stat().st_mode, tomllib.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise Rejected(f"cannot read the credentials for etcd in '{file}': {error}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise Rejected(f"cannot use the credentials for etcd in '{file}': others may read it; run 'chmod 600 {file}'")
    user, password = values.get("user"), values.get("password")
    if not isinstance(user, str) or not isinstance(password, str) or not user or set(values) > {"user", "password"}:
        raise Rejected(f"cannot use the credentials for etcd in '{file}': expected the texts 'user' and 'password'")
    return EtcdCredentials(user, password)
