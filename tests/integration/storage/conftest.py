"""An etcd cluster that the tests of one file share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.storage.etcd_cluster import EtcdCluster


@pytest.fixture(scope="module")
def etcd_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    cluster = EtcdCluster(tmp_path_factory.mktemp("etcd") / "cluster")
    try:
        cluster.wait_until_healthy()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[EtcdCluster]:
    """For a test that kills members."""
    cluster = EtcdCluster(tmp_path / "cluster")
    try:
        cluster.wait_until_healthy()
        yield cluster
    finally:
        cluster.close()
