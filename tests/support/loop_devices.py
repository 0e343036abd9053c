"""Loop devices: real kernel devices that a test can plug in and pull out. Need root, `losetup` and a free device."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

LOSETUP = shutil.which("losetup") or "/usr/sbin/losetup"


def losetup(*arguments: str) -> str:
    return subprocess.run([LOSETUP, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def why_no_loop_devices() -> str | None:
    """What this machine lacks for attaching loop devices."""
    if os.geteuid() != 0:
        return "needs root to attach loop devices"
    if not Path(LOSETUP).exists():
        return "needs the program losetup"
    try:
        losetup("--find")
    except subprocess.CalledProcessError as error:
        return f"needs a free loop device: {error.stderr.strip()}"
    return None


needs_loop_devices = pytest.mark.skipif(why_no_loop_devices() is not None, reason=why_no_loop_devices() or "")


@contextmanager
def attached(image: Path, content: bytes = b"") -> Iterator[str]:
    """Attach a file that begins with the content to a loop device; yields its device node."""
    image.write_bytes(content)
    os.truncate(image, 1024 * 1024)
    node = losetup("--find", "--show", str(image))
    try:
        yield node
    finally:
        losetup("--detach", node)


def udev_details(image: Path) -> str:
    """Discovery details that find just the device of this file."""
    return f"""udevRules: ['SUBSYSTEM=="block", KERNEL=="loop*", ATTR{{loop/backing_file}}=="{image}"']\n"""
