"""Limit: a device that the kernel announces is advertised to a kubelet within 100 ms, and usually within 20 ms.

A real loop device is attached; the time runs from the return of `losetup` until the kubelet side has the new list of
the configuration's plugin, over a real unix socket. The slowest one counts for the first limit. Needs root, losetup,
pyudev and a free loop device.
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
from ankaios.devices.device_manager import DeviceManager
from ankaios.devices.foreign_devices import ForeignDevices
from ankaios.devices.host import DeviceHost
from ankaios.devices.kubelet_plugins import PLUGIN_FOLDER

SLOWEST, MEDIAN, ROUNDS = 0.100, 0.020, 50
RULE = """udevRules: ['SUBSYSTEM=="block", KERNEL=="loop*", ATTR{{loop/backing_file}}=="{}"']\n"""


def losetup(*arguments: str) -> str:
    return subprocess.run(["losetup", *arguments], check=True, capture_output=True, text=True).stdout.strip()


class Watched:
    """A device manager under a kubelet, whose list of devices can be waited for."""

    def __init__(self, folder: Path) -> None:
        self.changed = asyncio.Event()
        self.kubelet = ForeignDevices(folder / "k" / PLUGIN_FOLDER, lambda resource, registered: self.changed.set())
        host = DeviceHost(lambda message: None, lambda owner: None, lambda owner: None, lambda: None)
        self.manager = DeviceManager("a", folder / "d", host, kubelet_dir=folder / "k", handlers_dir=folder / "h")
        self.tasks = [asyncio.create_task(part.run()) for part in (self.kubelet, self.manager)]

    def configure(self, details: str) -> None:
        update = grpc.DeviceUpdate(complete=True)
        handler = base.DiscoveryHandler(name="udev", discoveryDetails=details)
        settings = base.DeviceConfiguration(discoveryHandler=handler, offlineGraceSeconds=0)
        update.configurations.deviceConfigurations["loop"].CopyFrom(settings)
        self.manager.handle(update)

    async def until_advertised(self, number: int) -> None:
        resource = "akri.sh/loop"
        async with asyncio.timeout(30):
            while self.kubelet.resource(resource).allocatable != number or self.kubelet.outage(resource):
                self.changed.clear()
                await self.changed.wait()


async def measure(folder: Path) -> list[float]:
    image = folder / "image"
    image.write_bytes(b"\0" * 1024 * 1024)
    watched = Watched(folder)
    watched.configure(RULE.format(image))
    await watched.until_advertised(0)
    times = []
    for _ in range(ROUNDS + 1):
        node = await asyncio.to_thread(losetup, "--find", "--show", str(image))
        began = time.perf_counter()
        await watched.until_advertised(1)
        times.append(time.perf_counter() - began)
        await asyncio.to_thread(losetup, "--detach", node)
        await watched.until_advertised(0)
    for task in watched.tasks:
        task.cancel()
    await asyncio.gather(*watched.tasks, return_exceptions=True)
    return times[1:]  # the first one includes the listing of all devices at the start of the discovery


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="dev-", ignore_cleanup_errors=True) as folder:
        times = asyncio.run(measure(Path(folder)))
    median, slowest = statistics.median(times), max(times)
    print(f"uevent to advertised, {ROUNDS} times: median {median * 1e3:.1f} ms, slowest {slowest * 1e3:.1f} ms")
    print(f"limit: less than {MEDIAN * 1e3:.0f} ms and {SLOWEST * 1e3:.0f} ms")
    ok = median < MEDIAN and slowest < SLOWEST
    print("kept" if ok else "BROKEN")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
