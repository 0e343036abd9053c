from pathlib import Path

import pytest

from ankaios.common.errors import Rejected
from ankaios.grpc.addresses import TcpAddress
from ankaios.storage.etcd.credentials import read_etcd_credentials
from ankaios.storage.etcd.etcd_members import EtcdCredentials
from ankaios.storage.etcd.etcd_storage import make_etcd_storage
from ankaios.storage.leader_election import Candidate
from ankaios.storage.storage_url import EtcdLocation

SERVER = Candidate("server", "http://server:25551")
HOST = (TcpAddress("host", 2379),)
CREDENTIALS = EtcdCredentials("root", "secret")


async def test_tls_without_certificates_is_rejected() -> None:
    with pytest.raises(Rejected, match="needs certificates"):
        make_etcd_storage(EtcdLocation((TcpAddress("host", 2379, secure=True),), "/ankaios"), SERVER)


async def test_a_password_is_not_sent_without_encryption() -> None:
    with pytest.raises(Rejected, match="would send the password without encryption: use etcds://"):
        make_etcd_storage(EtcdLocation(HOST, "/ankaios"), SERVER, credentials=CREDENTIALS)


def test_credentials_come_from_the_environment() -> None:
    environ = {"ANKSERVER_STORAGE_USER": "root", "ANKSERVER_STORAGE_PASSWORD": "secret"}
    assert read_etcd_credentials(None, environ) == CREDENTIALS
    assert read_etcd_credentials(None, {}) is None
    assert "secret" not in repr(CREDENTIALS)


@pytest.mark.parametrize(
    ("environ", "missing"),
    [
        ({"ANKSERVER_STORAGE_USER": "root"}, "ANKSERVER_STORAGE_PASSWORD"),
        ({"ANKSERVER_STORAGE_PASSWORD": "secret"}, "ANKSERVER_STORAGE_USER"),
    ],
)
def test_half_of_the_credentials_is_rejected(environ: dict[str, str], missing: str) -> None:
    with pytest.raises(Rejected, match=f"{missing} is not set"):
        read_etcd_credentials(None, environ)


def test_credentials_in_a_file_count_more(tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text('user = "root"\npassword = "secret"\n')
    file.chmod(0o600)
    assert read_etcd_credentials(file, {"ANKSERVER_STORAGE_USER": "other"}) == CREDENTIALS


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ('user = "root"\npassword = "secret"\n', 0o644, "others may read it; run 'chmod 600"),
        ('user = "root"\n', 0o600, "expected the texts 'user' and 'password'"),
        ('user = 1\npassword = "secret"\n', 0o600, "expected the texts 'user' and 'password'"),
        ('user = "a"\npassword = "secret"\nx = 1\n', 0o600, "expected the texts 'user' and 'password'"),
        ("user =", 0o600, "cannot read the credentials"),
    ],
)
def test_an_unusable_file_is_rejected_with_the_reason(tmp_path: Path, text: str, mode: int, reason: str) -> None:
    file = tmp_path / "credentials.toml"
    file.write_text(text)
    file.chmod(mode)
    with pytest.raises(Rejected, match=reason) as rejected:
        read_etcd_credentials(file, {})
    assert "secret" not in str(rejected.value)


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(Rejected, match="cannot read the credentials"):
        read_etcd_credentials(tmp_path / "none", {})
