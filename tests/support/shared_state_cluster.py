"""A cluster with several servers that share their state in a real etcd cluster on this machine."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.integration.storage.etcd_cluster import HOST, EtcdCluster
from tests.support.cluster import Cluster, _end, free_port


class SharedStateCluster(Cluster):
    """`servers` by name; agents and commands get the URLs of all of them."""

    def __init__(
        self, names: Sequence[str] = ("s1", "s2", "s3"), size: int = 3, lease: int = 2, host: str = HOST
    ) -> None:
        super().__init__()
        self._lease = str(lease)
        self.ports = {name: free_port() for name in names}
        self.servers: dict[str, subprocess.Popen[bytes]] = {}
        self.etcd = EtcdCluster(Path(self.folder) / "etcd", size, host=host)
        self.etcd.wait_until_healthy()

    @property
    def url(self) -> str:
        return ",".join(map(self.url_of, self.ports))

    def url_of(self, name: str) -> str:
        return f"http://{self.address(name)}:{self.ports[name]}"

    def address(self, name: str) -> str:
        del name
        return HOST

    def prefix(self, name: str) -> tuple[str, ...]:
        """The program and its arguments with which this server is started, such as in a network namespace."""
        del name
        return ()

    def launch(self, name: str, *more: str) -> None:
        """Start a server; it may be on standby."""
        self.servers[name] = self._start(
            name,
            "ankaios.server",
            *("--insecure", "--address", f"{self.address(name)}:{self.ports[name]}", "--server-name", name),
            *("--storage", str(self.etcd.location("/test")), "--storage-lease", self._lease),
            *more,
            prefix=self.prefix(name),
        )

    def leader(self) -> str:
        """The server that accepts connections at the moment; waits for one."""
        found: list[str] = []

        def search() -> bool:
            found[:] = [name for name in self.servers if self._leads(name)]
            return bool(found)

        self.wait_until("a server leads", search)
        return found[0]

    def _leads(self, name: str) -> bool:
        if self.servers[name].poll() is not None:
            return False
        log = (self.folder / f"{name}.log").read_text()
        return log.rfind("This server leads") > log.rfind("The server stops commanding")

    def kill(self, name: str) -> None:
        _end(self.servers.pop(name), 9)

    def close(self) -> None:
        for process in self.servers.values():
            _end(process, 15)
        self.etcd.close()
        super().close()
