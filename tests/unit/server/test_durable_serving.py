import pytest

from ankaios.common.errors import StartupFailed
from ankaios.server.durable_serving import _make_storage
from ankaios.server.settings import StorageSettings
from ankaios.storage.etcd.etcd_store import EtcdStore
from ankaios.storage.leader_election import Candidate
from ankaios.storage.sqlite.sqlite_store import SqliteStore
from ankaios.storage.storage_url import parse_storage_url

SERVER = Candidate("server", "http://server:25551")


def settings(url: str) -> StorageSettings:
    return StorageSettings(parse_storage_url(url))


@pytest.mark.parametrize(
    ("url", "kind", "is_shared"), [("sqlite:/tmp/x.db", SqliteStore, False), ("etcd://host/", EtcdStore, True)]
)
async def test_each_url_gives_its_store(url: str, kind: type, is_shared: bool) -> None:
    storage = _make_storage(settings(url), SERVER, None)
    assert isinstance(storage.store, kind)
    assert storage.store.status().problem is None
    assert (storage.registry is not None) is is_shared


def test_a_server_with_unusable_storage_settings_does_not_start() -> None:
    with pytest.raises(
        StartupFailed, match="Could not use the storage: ''etcds://host:2379/ankaios' needs certificates"
    ):
        _make_storage(settings("etcds://host/"), SERVER, None)
