"""Checks PEM files before a connection is tried: dates, the signature of the authority, and the private key.

Input: the files from the settings. Output: results that name the file and the failed check. Permissions were checked
when the files were read.
"""

import tempfile
from pathlib import Path

from ankaios.cli.doctor.machine_checks import ProgramResult, Results, fine, note, run_program, wrong
from ankaios.common.config import GivenPem, Pem

_SOON_SECONDS = 30 * 24 * 3600
TOPIC = "certificates"
_CREATE = "ank certs create DIR"
_CREATE_NEW = f"in a new folder: {_CREATE}"  # existing files are kept
_ONE_SET = "use files of one 'ank certs create'"


def check_certificates(given: GivenPem) -> Results:
    if not (given.ca or given.crt or given.key):
        yield note(TOPIC, "none are set: only '--insecure' connections work", _CREATE)
        return
    if not (given.ca and given.crt and given.key):
        yield wrong(TOPIC, "all three of ca_pem, crt_pem and key_pem are needed", _CREATE)
        return
    problems = [*_date_results(given.ca), *_date_results(given.crt), *_pair_results(given.ca, given.crt, given.key)]
    yield from problems
    if not problems:
        yield fine(TOPIC, f"'{given.crt.origin}' is signed by '{given.ca.origin}' and valid")


def _date_results(pem: Pem) -> Results:
    dates = _openssl("x509", "-noout", "-enddate", "-checkend", "0", text=pem.text)
    if "notAfter" not in dates.output:
        yield wrong(TOPIC, f"'{pem.origin}' is no certificate", _CREATE)
    elif dates.code != 0:
        yield wrong(TOPIC, f"'{pem.origin}' has expired", _CREATE_NEW)
    elif _openssl("x509", "-noout", "-checkend", str(_SOON_SECONDS), text=pem.text).code != 0:
        until = dates.output.partition("notAfter=")[2].splitlines()[0]
        yield note(TOPIC, f"'{pem.origin}' expires on {until}", _CREATE_NEW)


def _pair_results(ca: Pem, crt: Pem, key: Pem) -> Results:
    with tempfile.TemporaryDirectory() as folder:
        authority = Path(folder) / "ca.pem"
        authority.write_text(ca.text)
        verified = _openssl("verify", "-CAfile", str(authority), text=crt.text)
        if verified.code != 0 and "expired" not in verified.output:
            yield wrong(TOPIC, f"'{crt.origin}' is not signed by '{ca.origin}'", _ONE_SET)
    public_key = _openssl("x509", "-noout", "-pubkey", text=crt.text).output
    if public_key != _openssl("pkey", "-pubout", text=key.text).output:
        yield wrong(TOPIC, f"'{key.origin}' is not the key of '{crt.origin}'", _ONE_SET)


def _openssl(*arguments: str, text: str) -> ProgramResult:
    return run_program("openssl", *arguments, text=text)
