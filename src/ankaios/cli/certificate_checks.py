"""What is wrong with a set of PEM files before anybody tries to connect with them.

In come the files that settings name; out go findings that name the file and the check that failed. Permissions were
checked when the files were read; here it is dates, the signature of the authority, and the key that belongs to it.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ankaios.cli.doctor import Finding, Verdict
from ankaios.common.config import GivenPem, Pem

_SOON_SECONDS = 30 * 24 * 3600
_CALL_LIMIT_SECONDS = 20
TOPIC = "certificates"
_ANEW = "in a new folder: ank certs create DIR"  # where there are some they are kept


def check_certificates(given: GivenPem) -> Iterator[Finding]:
    if not (given.ca or given.crt or given.key):
        yield Finding(TOPIC, Verdict.NOTE, "none are set: only '--insecure' connections work", "ank certs create DIR")
        return
    if not (given.ca and given.crt and given.key):
        yield Finding(
            TOPIC, Verdict.WRONG, "all three of ca_pem, crt_pem and key_pem are needed", "ank certs create DIR"
        )
        return
    faults = [*_date_findings(given.ca), *_date_findings(given.crt), *_pair_findings(given.ca, given.crt, given.key)]
    yield from faults
    if not faults:
        yield Finding(TOPIC, Verdict.FINE, f"'{given.crt.origin}' is signed by '{given.ca.origin}' and valid")


def _date_findings(pem: Pem) -> Iterator[Finding]:
    code, output = _openssl("x509", "-noout", "-enddate", "-checkend", "0", text=pem.text)
    if "notAfter" not in output:
        yield Finding(TOPIC, Verdict.WRONG, f"'{pem.origin}' is no certificate", "ank certs create DIR")
    elif code != 0:
        yield Finding(TOPIC, Verdict.WRONG, f"'{pem.origin}' has expired", _ANEW)
    elif _openssl("x509", "-noout", "-checkend", str(_SOON_SECONDS), text=pem.text)[0] != 0:
        until = output.partition("notAfter=")[2].splitlines()[0]
        yield Finding(TOPIC, Verdict.NOTE, f"'{pem.origin}' expires on {until}", _ANEW)


def _pair_findings(ca: Pem, crt: Pem, key: Pem) -> Iterator[Finding]:
    with tempfile.TemporaryDirectory() as folder:
        authority = Path(folder) / "ca.pem"
        authority.write_text(ca.text)
        code, output = _openssl("verify", "-CAfile", str(authority), text=crt.text)
        if code != 0 and "expired" not in output:
            yield Finding(
                TOPIC,
                Verdict.WRONG,
                f"'{crt.origin}' is not signed by '{ca.origin}'",
                "use files of one 'ank certs create'",
            )
    of_certificate = _openssl("x509", "-noout", "-pubkey", text=crt.text)
    of_key = _openssl("pkey", "-pubout", text=key.text)
    if of_certificate[1] != of_key[1]:
        yield Finding(
            TOPIC,
            Verdict.WRONG,
            f"'{key.origin}' is not the key of '{crt.origin}'",
            "use files of one 'ank certs create'",
        )


def _openssl(*arguments: str, text: str) -> tuple[int, str]:
    try:
        done = subprocess.run(
            ["openssl", *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=_CALL_LIMIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return 1, str(fault)
    return done.returncode, done.stdout + (done.stderr if done.returncode else "")
