from pathlib import Path

import pytest

from ankaios.common.errors import Rejected
from ankaios.grpc.addresses import TcpAddress
from ankaios.storage.storage_url import EtcdLocation, SqliteLocation, parse_storage_url

ONE = TcpAddress("host1", 2379)


@pytest.mark.parametrize(
    ("text", "location"),
    [
        ("sqlite:/var/lib/ankaios/state.db", SqliteLocation(Path("/var/lib/ankaios/state.db"))),
        ("sqlite:///var/lib/state.db", SqliteLocation(Path("/var/lib/state.db"))),
        ("etcd://host1:2379/fleet/car", EtcdLocation((ONE,), "/fleet/car")),
        ("etcd://host1,[::1]:1/", EtcdLocation((ONE, TcpAddress("::1", 1)), "/ankaios")),
        ("etcds://host1", EtcdLocation((ONE._replace(secure=True),), "/ankaios")),
    ],
)
def test_a_valid_url_names_a_store(text: str, location: object) -> None:
    assert parse_storage_url(text) == location
    assert parse_storage_url(str(location)) == location


def test_the_url_of_the_memory_store_has_no_location() -> None:
    assert parse_storage_url("memory:") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "expected memory:, sqlite:/absolute/path"),
        ("memory:x", "expected memory:"),
        ("redis://host", "expected memory:"),
        ("etcd:host", "expected memory:"),
        ("sqlite:state.db", "absolute path of a file"),
        ("sqlite:", "absolute path of a file"),
        ("sqlite:/var/lib/", "absolute path of a file"),
        ("sqlite://host/state.db", "absolute path of a file"),
        ("etcd://", "'' is no host"),
        ("etcd://a,,b/", "'' is no host"),
        ("etcd://a:/", "'a:' is no host"),
        ("etcd://a:0/", "'a:0' is no host"),
        ("etcd://a:99999/", "Port out of range"),
        ("etcd://a:x/", "'a:x' is no host"),
        ("etcd://[::1/", "'[::1' is no host"),
        ("etcd://a/p?timeout=3", "no options"),
    ],
)
def test_an_invalid_url_is_rejected_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(Rejected, match="invalid storage URL") as rejected:
        parse_storage_url(text)
    assert reason in str(rejected.value)


def test_a_password_in_the_url_is_rejected_and_not_repeated() -> None:
    with pytest.raises(Rejected, match="user and password belong into a file") as rejected:
        parse_storage_url("etcd://root:geheim@host/")
    assert "geheim" not in str(rejected.value)
