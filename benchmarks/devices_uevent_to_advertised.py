"""Promise: a device that the kernel announces is advertised to a kubelet within 100 ms.

A real loop device is attached; the time runs from the return of `losetup` until the device manager has the new list of
the configuration's plugin, over a real unix socket. Needs root, losetup, pyudev and a free loop device.
"""

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from ankaios.common.pb import ank_base_pb2 as base
from ankaios.common.pb import grpc_api_pb2 as grpc
from ankaios.devices.device_service import DeviceService, Host

LIMIT, ROUNDS = 0.100, 10
RULE = """udevRules: ['SUBSYSTEM=="block", KERNEL=="loop*", ATTR{{loop/backing_file}}=="{}"']\n"""


def losetup(*arguments: str) -> str:
    return subprocess.run(["losetup", *arguments], check=True, capture_output=True, text=True).stdout.strip()


class Watched:
    """A device service whose list of advertised devices can be waited for."""

    def __init__(self, folder: Path) -> None:
        self.service = DeviceService("node-a", folder / "d", handlers_dir=folder / "h")
        self.woken = asyncio.Event()
        host = Host(lambda message: None, self.woken.set, lambda owner: None, lambda: None)
        self.task = asyncio.create_task(self.service.run(host))

    def configure(self, details: str) -> None:
        update = grpc.DeviceUpdate(complete=True)
        handler = base.DiscoveryHandler(name="udev", discoveryDetails=details)
        settings = base.DeviceConfiguration(discoveryHandler=handler, offlineGraceSeconds=0)
        update.configurations.deviceConfigurations["loop"].CopyFrom(settings)
        self.service.handle(update)

    async def until_advertised(self, number: int) -> None:
        async with asyncio.timeout(30):
            while self.service.manager.count("akri.sh/loop").allocatable != number or not self._is_ready():
                self.woken.clear()
                await self.woken.wait()

    def _is_ready(self) -> bool:
        return self.service.manager.is_ready("akri.sh/loop")


async def measure(folder: Path) -> list[float]:
    image = folder / "image"
    image.write_bytes(b"\0" * 1024 * 1024)
    watched = Watched(folder)
    watched.configure(RULE.format(image))
    await watched.until_advertised(0)
    times = []
    for _ in range(ROUNDS):
        node = await asyncio.to_thread(losetup, "--find", "--show", str(image))
        began = time.perf_counter()
        await watched.until_advertised(1)
        times.append(time.perf_counter() - began)
        await asyncio.to_thread(losetup, "--detach", node)
        await watched.until_advertised(0)
    watched.task.cancel()
    await asyncio.gather(watched.task, return_exceptions=True)
    return times


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="dev-", ignore_cleanup_errors=True) as folder:
        times = asyncio.run(measure(Path(folder)))
    median = statistics.median(times)
    print(f"uevent to advertised: median {median * 1e3:.1f} ms, slowest {max(times) * 1e3:.1f} ms")
    print(f"promised less than {LIMIT * 1e3:.0f} ms")
    ok = median < LIMIT
    print("kept" if ok else "BROKEN")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
