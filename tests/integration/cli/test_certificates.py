"""`ank certs create` makes files that pass the permission checks of the programs: permissions, chain and names."""

import os
import stat
import subprocess
from pathlib import Path

import pytest

from ankaios.cli.certificates import certificate_subjects, create_certificates
from ankaios.common.config import load_pem_material, require_security
from ankaios.common.errors import AnkaiosError, Rejected
from tests.integration.cli.ank import ank


def openssl(*arguments: str | Path) -> str:
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("algorithm", ["ed25519", "ecdsa", "rsa"])
def test_all_parties_are_signed_and_pass_the_permission_checks(tmp_path: Path, algorithm: str) -> None:
    made = create_certificates(tmp_path / "certs", ["front", "rear"], algorithm, days=30)
    stems = ["ca", "server", "cli", "agent-front", "agent-rear"]
    assert {path.name for path in made} == {f"{stem}{end}.pem" for stem in stems for end in ("", "-key")}
    ca = tmp_path / "certs/ca.pem"
    for stem in stems[1:]:
        crt, key = tmp_path / f"certs/{stem}.pem", tmp_path / f"certs/{stem}-key.pem"
        assert openssl("verify", "-CAfile", ca, crt).strip().endswith("OK")
        flags = {"ca_pem": str(ca), "crt_pem": str(crt), "key_pem": str(key)}
        assert require_security(load_pem_material(flags, "TEST", {}), insecure=False) is not None
    assert "DNS:ank-server" in openssl("x509", "-in", tmp_path / "certs/server.pem", "-noout", "-ext", "subjectAltName")
    assert "DNS:rear" in openssl("x509", "-in", tmp_path / "certs/agent-rear.pem", "-noout", "-ext", "subjectAltName")
    for stem, role in (("agent-rear", "ankaios-agent"), ("cli", "ankaios-commander")):
        assert f"OU = {role}" in openssl("x509", "-in", tmp_path / f"certs/{stem}.pem", "-noout", "-subject")


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    for path in create_certificates(tmp_path, [], "ed25519", days=30):
        wanted = 0o600 if path.name.endswith("-key.pem") else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == wanted, path


def test_other_users_can_read_their_certificates_with_any_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        create_certificates(tmp_path / "certs", [], "ed25519", days=30)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "certs").stat().st_mode) == 0o755
    (tmp_path / "private").mkdir(mode=0o700)
    create_certificates(tmp_path / "private", [], "ed25519", days=30)
    assert stat.S_IMODE((tmp_path / "private").stat().st_mode) == 0o700, "the folder was created by another program"


def test_without_names_one_certificate_serves_any_agent(tmp_path: Path) -> None:
    create_certificates(tmp_path, [], "ed25519", days=30)
    assert "DNS:*" in openssl("x509", "-in", tmp_path / "agent.pem", "-noout", "-ext", "subjectAltName")


def test_a_second_run_adds_only_what_is_missing(tmp_path: Path) -> None:
    create_certificates(tmp_path, ["front"], "ed25519", days=30)
    before = {path.name: path.read_bytes() for path in tmp_path.glob("*.pem")}
    made = create_certificates(tmp_path, ["front", "rear"], "ed25519", days=30)
    assert [path.name for path in made] == ["agent-rear.pem", "agent-rear-key.pem"]
    assert all((tmp_path / name).read_bytes() == content for name, content in before.items())
    assert openssl("verify", "-CAfile", tmp_path / "ca.pem", tmp_path / "agent-rear.pem").strip().endswith("OK")


def test_no_intermediate_files_are_left(tmp_path: Path) -> None:
    create_certificates(tmp_path, ["front"], "ed25519", days=30)
    assert {path.suffix for path in tmp_path.iterdir()} == {".pem", ".srl"}


def test_an_invalid_agent_name_is_rejected() -> None:
    with pytest.raises(Rejected, match=r"Unsupported agent name 'a\.b'"):
        certificate_subjects(["a.b"])


def test_an_unreadable_authority_is_reported_with_the_failing_command(tmp_path: Path) -> None:
    for name in ("ca.pem", "ca-key.pem"):
        (tmp_path / name).write_text("no certificate")
    with pytest.raises(AnkaiosError, match="cannot create certificates: 'openssl x509"):
        create_certificates(tmp_path, [], "ed25519", days=30)


def test_without_the_key_of_the_authority_no_files_are_made(tmp_path: Path) -> None:
    """Users store it elsewhere, as the documentation recommends."""
    create_certificates(tmp_path, ["front"], "ed25519", days=30)
    (tmp_path / "ca-key.pem").unlink()
    before = {path.name for path in tmp_path.iterdir()}
    assert create_certificates(tmp_path, ["front"], "ed25519", days=30) == []
    with pytest.raises(AnkaiosError, match=r"ca-key\.pem', which has to sign them, is missing: copy it back"):
        create_certificates(tmp_path, ["rear"], "ed25519", days=30)
    assert {path.name for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("days", ["0", "-5", "x", "36501", "9" * 5000, ""])
def test_an_invalid_number_of_days_is_a_usage_error(tmp_path: Path, days: str) -> None:
    done = ank("certs", "create", str(tmp_path / "certs"), "--days", days)
    assert done.returncode == 2
    assert "expected a whole number from 1 to 36500" in done.stderr
    assert not (tmp_path / "certs").exists()


def test_a_file_instead_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = ank("certs", "create", str(tmp_path / "file"))
    assert done.returncode == 1
    assert done.stderr.endswith("File exists\nhint: name a folder\n")
