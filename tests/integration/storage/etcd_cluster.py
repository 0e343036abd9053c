"""A real etcd cluster on this machine, whose members can be killed, stopped and started again."""

import shutil
import signal
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path

import pytest

from ankaios.grpc.addresses import TcpAddress
from ankaios.storage.storage_url import EtcdLocation
from tests.support.cluster import free_port

_START_SECONDS = 30
HOST = "127.0.0.1"


def has_etcd() -> bool:
    return shutil.which("etcd") is not None


def etcd_program() -> str:
    found = shutil.which("etcd")
    if found is None:
        pytest.skip("etcd is not installed (Debian package etcd-server)")
    return found


def etcdctl_program() -> str:
    found = shutil.which("etcdctl")
    if found is None:
        pytest.skip("etcdctl is not installed (Debian package etcd-client)")
    return found


class EtcdMemberProcess:
    def __init__(self, folder: Path, name: str, client_port: int, peer_port: int, host: str = HOST) -> None:
        self.name = name
        self.host = host
        self.client_port = client_port
        self.peer_url = f"http://{host}:{peer_port}"
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, cluster: str, options: Sequence[str], scheme: str) -> None:
        """With the data it had before."""
        client_url = f"{scheme}://{self.host}:{self.client_port}"
        with (self._folder / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *(etcd_program(), "--name", self.name, "--data-dir", str(self._folder / self.name)),
                    *("--listen-client-urls", client_url, "--advertise-client-urls", client_url),
                    *("--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url),
                    *("--initial-cluster", cluster, "--initial-cluster-token", str(self._folder)),
                    *("--heartbeat-interval", "50", "--election-timeout", "500", "--logger", "zap"),
                    *options,
                ],
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        return (self._folder / f"{self.name}.log").read_text()[-2000:]


class EtcdCluster:
    def __init__(
        self, folder: Path, size: int = 3, options: Sequence[str] = (), scheme: str = "http", host: str = HOST
    ) -> None:
        etcd_program()
        folder.mkdir(parents=True)
        ports = [free_port() for _ in range(2 * size)]
        self.members = [EtcdMemberProcess(folder, f"m{n}", ports[2 * n], ports[2 * n + 1], host) for n in range(size)]
        self._options = options
        self._scheme = scheme
        self._initial = ",".join(f"{member.name}={member.peer_url}" for member in self.members)
        for member in self.members:
            self.start(member)

    def start(self, member: EtcdMemberProcess) -> None:
        member.start(self._initial, self._options, self._scheme)

    def location(self, prefix: str) -> EtcdLocation:
        is_secure = self._scheme == "https"
        endpoints = tuple(TcpAddress(member.host, member.client_port, is_secure) for member in self.members)
        return EtcdLocation(endpoints, prefix)

    def wait_until_healthy(self) -> None:
        """Until each running member can write."""
        deadline = time.monotonic() + _START_SECONDS
        for member in self.members:
            while member.is_running and not _is_healthy(member):
                assert time.monotonic() < deadline, member.log
                time.sleep(0.05)
            assert member.is_running or time.monotonic() < deadline, member.log

    def leader(self) -> EtcdMemberProcess:
        """The member that leads the others."""
        for member in self.members:
            metrics = _get(member, "/metrics") if member.is_running else ""
            if "\netcd_server_is_leader 1\n" in metrics:
                return member
        raise AssertionError("etcd has no leader")

    def close(self) -> None:
        for member in self.members:
            member.kill()


def _is_healthy(member: EtcdMemberProcess) -> bool:
    return '"health":"true"' in _get(member, "/health")


def _get(member: EtcdMemberProcess, path: str) -> str:
    try:
        with urllib.request.urlopen(f"http://{member.host}:{member.client_port}{path}", timeout=2) as response:
            return str(response.read().decode())
    except (OSError, urllib.error.URLError):
        return ""
