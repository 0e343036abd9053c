"""etcd with TLS, client certificates and users."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ankaios.common.config import PemMaterial
from ankaios.grpc.addresses import TcpAddress
from ankaios.storage.core.etcd_layout import KeySpace
from ankaios.storage.etcd.etcd_client import EtcdClient
from ankaios.storage.etcd.etcd_members import EtcdCredentials, EtcdRejected, EtcdUnavailable
from ankaios.storage.etcd.etcd_storage import make_etcd_storage
from ankaios.storage.leader_election import Candidate
from ankaios.storage.pb.etcd_api_pb2 import RangeRequest
from ankaios.storage.storage import Storage
from ankaios.storage.storage_url import EtcdLocation
from tests.integration.storage.etcd_cluster import HOST, EtcdCluster, etcdctl_program
from tests.integration.storage.sqlite_states import workloads
from tests.support.certificates import Authority
from tests.support.cluster import Cluster
from tests.unit.storage.changes import a_change

SERVER = Candidate("server", "http://server:25551")


class SecureEtcd:
    """One member that accepts only clients with a certificate of the authority."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder / "pki")
        certificate, self.key = self.authority.certificate_files(
            "etcd", san=f"IP:{HOST}", usage="serverAuth,clientAuth"
        )
        self.certificate = certificate
        options = [
            *("--cert-file", str(certificate), "--key-file", str(self.key)),
            *("--client-cert-auth", "--trusted-ca-file", str(self.authority.certificate)),
        ]
        self.cluster = EtcdCluster(folder / "cluster", 1, options, scheme="https")
        self.etcdctl("endpoint", "health")

    def etcdctl(self, *words: str, text: str = "") -> None:
        """Wait until etcd responds, and execute one command."""
        (endpoint,) = self.cluster.location("/").endpoints
        subprocess.run(
            [
                *(
                    etcdctl_program(),
                    "--endpoints",
                    f"https://{endpoint.authority}",
                    "--cacert",
                    str(self.authority.certificate),
                ),
                *("--cert", str(self.certificate), "--key", str(self.key), "--dial-timeout", "20s"),
                *("--command-timeout", "20s", *words),
            ],
            env={"ETCDCTL_API": "3"},
            input=text.encode(),
            check=True,
            capture_output=True,
            timeout=60,
        )

    def client_certificate(self) -> PemMaterial:
        return self.authority.issue("server", san="DNS:ank-server", usage="clientAuth")


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureEtcd]:
    made = SecureEtcd(tmp_path_factory.mktemp("secure"))
    yield made
    made.cluster.close()


async def commit_and_load(storage: Storage) -> None:
    try:
        await storage.election.campaign()
        await storage.store.load()
        await storage.store.commit([a_change(1, "web", 1)])
        assert workloads(await storage.store.load()) == {"web": 1}
    finally:
        await storage.close()


async def test_a_server_with_a_certificate_of_the_authority_can_use_etcd(etcd: SecureEtcd) -> None:
    """All certificates are Ed25519 certificates."""
    await commit_and_load(make_etcd_storage(etcd.cluster.location("/tls"), SERVER, etcd.client_certificate()))


async def test_a_host_with_another_name_is_rejected(etcd: SecureEtcd) -> None:
    (endpoint,) = etcd.cluster.location("/").endpoints
    location = EtcdLocation((TcpAddress("localhost", endpoint.port, secure=True),), "/tls")
    await fails(location, etcd.client_certificate(), "Hostname mismatch")


async def test_an_etcd_of_another_authority_is_rejected(etcd: SecureEtcd, tmp_path: Path) -> None:
    own = etcd.client_certificate()
    other = Authority(tmp_path / "other").issue("server", san="DNS:x", usage="clientAuth")
    await fails(etcd.cluster.location("/tls"), PemMaterial(other.ca, own.crt, own.key), "certificate")


async def test_a_certificate_of_another_authority_is_rejected_by_etcd(etcd: SecureEtcd, tmp_path: Path) -> None:
    own = etcd.client_certificate()
    other = Authority(tmp_path / "other").issue("server", san="DNS:x", usage="clientAuth")
    await fails(etcd.cluster.location("/tls"), PemMaterial(own.ca, other.crt, other.key), "certificate|reset by peer")


async def fails(location: EtcdLocation, pem: PemMaterial, reason: str) -> None:
    storage = make_etcd_storage(location, SERVER, pem)
    client = storage.store._client  # type: ignore[attr-defined]
    with pytest.raises(EtcdUnavailable, match=reason):
        await client.range(RangeRequest(key=b"x"), 0.5)
    await storage.close()


@pytest.fixture
def with_users(etcd: SecureEtcd) -> Iterator[SecureEtcd]:
    """The user `ank` may use keys below /users only."""
    for command in (
        "user add root:top-secret",
        "user grant-role root root",
        "role add ank",
        "role grant-permission ank --prefix=true readwrite /users/",
        "user add ank:secret",
        "user grant-role ank ank",
        "auth enable",
    ):
        etcd.etcdctl(*command.split())
    yield etcd
    etcd.etcdctl("--user", "root:top-secret", "auth", "disable")
    for name in ("ank", "root"):
        etcd.etcdctl("user", "delete", name)
    etcd.etcdctl("role", "delete", "ank")


async def test_a_user_can_use_only_permitted_keys_with_the_right_password(with_users: SecureEtcd) -> None:
    pem = with_users.client_certificate()
    location = with_users.cluster.location("/users")
    await commit_and_load(make_etcd_storage(location, SERVER, pem, EtcdCredentials("ank", "secret")))

    wrong = make_etcd_storage(location, SERVER, pem, EtcdCredentials("ank", "wrong"))
    with pytest.raises(EtcdRejected, match="authentication failed") as rejected:
        await wrong.election.campaign()
    assert "wrong" not in str(rejected.value)
    await wrong.close()

    elsewhere = make_etcd_storage(with_users.cluster.location("/other"), SERVER, pem, EtcdCredentials("ank", "secret"))
    with pytest.raises(EtcdRejected, match="permission denied"):
        await elsewhere.election.campaign()
    await elsewhere.close()

    without = make_etcd_storage(location, SERVER, pem)
    with pytest.raises(EtcdRejected):
        await without.election.campaign()
    await without.close()


async def test_a_token_that_is_not_valid_any_more_is_replaced(with_users: SecureEtcd) -> None:
    """etcd drops the tokens of a user whose password is set."""
    credentials = EtcdCredentials("ank", "secret")
    storage = make_etcd_storage(
        with_users.cluster.location("/users"), SERVER, with_users.client_certificate(), credentials
    )
    client: EtcdClient = storage.store._client  # type: ignore[attr-defined]
    request = RangeRequest(key=KeySpace("/users").leader)
    await client.range(request, 10)
    with_users.etcdctl(*("--user", "root:top-secret", "user", "passwd", "ank", "--interactive=false"), text="secret\n")
    await client.range(request, 10)
    await storage.close()


@pytest.mark.parametrize("source", ["file", "environment"])
def test_a_server_uses_its_client_certificate_user_and_password(
    with_users: SecureEtcd, tmp_path: Path, source: str
) -> None:
    pem = with_users.client_certificate()
    files = {"ca_pem": pem.ca.origin, "crt_pem": pem.crt.origin, "key_pem": pem.key.origin}
    with Cluster() as cluster:
        arguments = ["--storage", str(with_users.cluster.location(f"/users/{source}"))]
        if source == "file":
            credentials = tmp_path / "credentials.toml"
            credentials.write_text('user = "ank"\npassword = "secret"\n')
            credentials.chmod(0o600)
            arguments += ["--storage-credentials", str(credentials)]
            arguments += [word for name, path in files.items() for word in (f"--storage-{name}", path)]
        else:
            cluster.environ |= {"ANKSERVER_STORAGE_USER": "ank", "ANKSERVER_STORAGE_PASSWORD": "secret"}
            cluster.environ |= {f"ANKSERVER_STORAGE_{name.upper()}": path for name, path in files.items()}
        cluster.start_server(None, *arguments)
        cluster.apply('{"apiVersion": "v1", "configs": {"stored": "in etcd"}}')
        assert "etcds://" in cluster.ank("get", "servers").stdout
        cluster.kill_server()
        cluster.start_server(None, *arguments)
        assert cluster.state("desiredState.configs")["desiredState"]["configs"] == {"stored": "in etcd"}
