"""Makes a certificate authority and certificates for server, agents and command line that pass every check.

In come a folder and the names of the agents; out go PEM files with the right permissions. `openssl` does the work, so
the files are exactly what the documented recipe makes by hand. An authority found in the folder is used again, and
existing certificates are left alone: more agents can be added later.
"""

import os
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

from ankaios.common.errors import AnkaiosError, Rejected
from ankaios.common.names import check_agent_name

SERVER_NAME = "ank-server"
ANY_AGENT = "*"

KEY_OPTIONS = {
    "ed25519": ["-newkey", "ed25519"],
    "ecdsa": ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"],
    "rsa": ["-newkey", "rsa:3072"],
}
_OPENSSL_LIMIT_SECONDS = 60


class Party(Struct, frozen=True):
    """One certificate: the stem of its file names, its subject and whom it may be."""

    stem: str
    common_name: str
    usage: str
    dns_name: str

    @property
    def files(self) -> tuple[str, str]:
        return f"{self.stem}.pem", f"{self.stem}-key.pem"


def parties(agents: list[str]) -> list[Party]:
    """Server and command line always; without names one certificate that any agent may use."""
    made = [
        Party("server", SERVER_NAME, "serverAuth", SERVER_NAME),
        Party("cli", "ank", "clientAuth", "ank"),
    ]
    for agent in agents or [ANY_AGENT]:
        if agent == ANY_AGENT:
            made.append(Party("agent", "ank-agent", "clientAuth", ANY_AGENT))
            continue
        check_agent_name(agent)
        if not agent:
            raise Rejected("An agent name is empty: name each agent, or leave --agent out for one certificate for all.")
        made.append(Party(f"agent-{agent}", agent, "clientAuth", agent))
    return made


def create(folder: Path, agents: list[str], algorithm: str, days: int) -> list[Path]:
    """Make what is missing in the folder and return it."""
    if shutil.which("openssl") is None:
        raise AnkaiosError("cannot create certificates: 'openssl' is not installed (try: apt-get install openssl)")
    wanted = parties(agents)
    _make_folder(folder)
    made = [] if (folder / "ca.pem").exists() else _make_authority(folder, algorithm, days)
    missing = [party for party in wanted if not (folder / party.files[0]).exists()]
    if missing and not (folder / "ca-key.pem").exists():
        raise AnkaiosError(
            f"cannot create certificates: '{folder}/ca-key.pem', which has to sign them, is not there: bring it back "
            "for as long as it is needed, or make everything anew in another folder"
        )
    for party in missing:
        made += _make_certificate(folder, party, algorithm, days)
    return made


def _make_folder(folder: Path) -> None:
    """A new one is open to others, whatever the umask: server and agents run as other users. Each key is protected."""
    if not folder.is_dir():
        folder.mkdir(parents=True)
        folder.chmod(0o755)


def _make_authority(folder: Path, algorithm: str, days: int) -> list[Path]:
    crt, key = folder / "ca.pem", folder / "ca-key.pem"
    _openssl(
        "req", "-x509", *KEY_OPTIONS[algorithm], "-nodes", "-keyout", key, "-out", crt, "-days", days,
        "-subj", "/CN=ankaios-ca",
        "-addext", "basicConstraints=critical,CA:TRUE",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign",
    )  # fmt: skip
    return _protected(crt, key)


def _make_certificate(folder: Path, party: Party, algorithm: str, days: int) -> list[Path]:
    crt, key = (folder / name for name in party.files)
    request, extensions = crt.with_suffix(".csr"), crt.with_suffix(".ext")
    try:
        extensions.write_text(f"subjectAltName=DNS:{party.dns_name}\nextendedKeyUsage={party.usage}\n")
        _openssl(
            "req", *KEY_OPTIONS[algorithm], "-nodes", "-keyout", key, "-out", request,
            "-subj", f"/CN={party.common_name}",
        )  # fmt: skip
        _openssl(
            "x509", "-req", "-in", request, "-CA", folder / "ca.pem", "-CAkey", folder / "ca-key.pem",
            "-CAcreateserial", "-CAserial", folder / "ca.srl", "-days", days, "-extfile", extensions, "-out", crt,
        )  # fmt: skip
    finally:
        request.unlink(missing_ok=True)
        extensions.unlink(missing_ok=True)
    return _protected(crt, key)


def _protected(crt: Path, key: Path) -> list[Path]:
    crt.chmod(0o644)
    key.chmod(0o600)
    return [crt, key]


def _openssl(*arguments: str | int | Path) -> None:
    command = ["openssl", *map(str, arguments)]
    # Keys must never be readable by others, not even until chmod.
    before = os.umask(0o077)
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_OPENSSL_LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired as fault:
        raise AnkaiosError(f"cannot create certificates: '{' '.join(command)}' did not end") from fault
    finally:
        os.umask(before)
    if result.returncode != 0:
        reason = result.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise AnkaiosError(f"cannot create certificates: '{' '.join(command)}': {reason[0]}")
