"""Creates a certificate authority and certificates for server, agents and command line.

Input: a folder and the names of the agents. Output: PEM files with the required permissions, created by `openssl` as in
the documented manual steps. An existing authority is used again and existing certificates are kept, so that more agents
can be added later.
"""

import os
import shutil
import subprocess
from pathlib import Path

from msgspec import Struct

from ankaios.common.certificate_roles import AGENT_ROLE, COMMANDER_ROLE
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


class CertificateSubject(Struct, frozen=True):
    """One certificate: the stem of its file names, its subject, its usage, its DNS name, and its role if any."""

    stem: str
    common_name: str
    usage: str
    dns_name: str
    role: str = ""

    @property
    def files(self) -> tuple[str, str]:
        return f"{self.stem}.pem", f"{self.stem}-key.pem"


def certificate_subjects(agents: list[str]) -> list[CertificateSubject]:
    """Server and command line, and the agents; without agent names one certificate for any agent."""
    subjects = [
        CertificateSubject("server", SERVER_NAME, "serverAuth", SERVER_NAME),
        CertificateSubject("cli", "ank", "clientAuth", "ank", COMMANDER_ROLE),
    ]
    for agent in agents or [ANY_AGENT]:
        if agent == ANY_AGENT:
            subjects.append(CertificateSubject("agent", "ank-agent", "clientAuth", ANY_AGENT, AGENT_ROLE))
            continue
        check_agent_name(agent)
        if not agent:
            raise Rejected("An agent name is empty: name each agent, or leave --agent out for one certificate for all.")
        subjects.append(CertificateSubject(f"agent-{agent}", agent, "clientAuth", agent, AGENT_ROLE))
    return subjects


def create_certificates(folder: Path, agents: list[str], algorithm: str, days: int) -> list[Path]:
    """Create the missing files in the folder and return their paths."""
    if shutil.which("openssl") is None:
        raise AnkaiosError("cannot create certificates: 'openssl' is not installed (try: apt-get install openssl)")
    subjects = certificate_subjects(agents)
    _create_folder(folder)
    created = [] if (folder / "ca.pem").exists() else _create_authority(folder, algorithm, days)
    missing = [subject for subject in subjects if not (folder / subject.files[0]).exists()]
    if missing and not (folder / "ca-key.pem").exists():
        raise AnkaiosError(
            f"cannot create certificates: '{folder}/ca-key.pem', which has to sign them, is missing: copy it back "
            "for the moment, or create everything in another folder"
        )
    for subject in missing:
        created += _create_certificate(folder, subject, algorithm, days)
    return created


def _create_folder(folder: Path) -> None:
    """A new folder is readable by others: server and agents may run as other users. Each key file is protected."""
    if not folder.is_dir():
        folder.mkdir(parents=True)
        folder.chmod(0o755)


def _create_authority(folder: Path, algorithm: str, days: int) -> list[Path]:
    crt, key = folder / "ca.pem", folder / "ca-key.pem"
    _openssl(
        "req", "-x509", *KEY_OPTIONS[algorithm], "-nodes", "-keyout", key, "-out", crt, "-days", days,
        "-subj", "/CN=ankaios-ca",
        "-addext", "basicConstraints=critical,CA:TRUE",
        "-addext", "keyUsage=critical,keyCertSign,cRLSign",
    )  # fmt: skip
    return _protected(crt, key)


def _create_certificate(folder: Path, subject: CertificateSubject, algorithm: str, days: int) -> list[Path]:
    crt, key = (folder / name for name in subject.files)
    request, extensions = crt.with_suffix(".csr"), crt.with_suffix(".ext")
    try:
        extensions.write_text(f"subjectAltName=DNS:{subject.dns_name}\nextendedKeyUsage={subject.usage}\n")
        _openssl(
            "req", *KEY_OPTIONS[algorithm], "-nodes", "-keyout", key, "-out", request,
            "-subj", f"/CN={subject.common_name}" + (f"/OU={subject.role}" if subject.role else ""),
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
    # Keys must never be readable by others, not even before chmod.
    previous = os.umask(0o077)
    try:
        result = subprocess.run(command, capture_output=True, text=True, timeout=_OPENSSL_LIMIT_SECONDS, check=False)
    except subprocess.TimeoutExpired as error:
        raise AnkaiosError(f"cannot create certificates: '{' '.join(command)}' did not end") from error
    finally:
        os.umask(previous)
    if result.returncode != 0:
        reason = result.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise AnkaiosError(f"cannot create certificates: '{' '.join(command)}': {reason[0]}")
