import json
import logging
from pathlib import Path

import pytest

from ankaios.common.device_grant import DeviceGrant
from ankaios.common.errors import Unavailable
from ankaios.devices.devices_files import DevicesFiles
from tests.unit.devices.crashes import STEPS, crash_at


def a_folder(path: Path) -> DevicesFiles:
    files = DevicesFiles(path)
    files.open()
    return files


def test_a_file_can_be_read_by_everybody_and_is_part_of_the_grant(tmp_path: Path) -> None:
    grant = a_folder(tmp_path).write("w1", 0, DeviceGrant({"A": "1"}), ())
    (path,) = tmp_path.iterdir()
    assert grant.envs == {"A": "1", "ANKAIOS_DEVICES_FILE": str(path)}
    assert (grant.mounts[0].host_path, grant.mounts[0].read_only) == (str(path), True)
    assert path.stat().st_mode & 0o777 == 0o444
    assert json.loads(path.read_text())


def test_a_file_is_replaced_and_never_changed_in_place(tmp_path: Path) -> None:
    """Only the owner of the folder may replace it; not even the agent may write into what it made read-only."""
    files = a_folder(tmp_path)
    files.write("w1", 0, DeviceGrant({"A": "1"}), ())
    (path,) = tmp_path.iterdir()
    before = path.open()
    files.write("w1", 0, DeviceGrant({"A": "2"}), ())
    assert '"2"' in path.read_text()
    with before:
        assert '"2"' not in before.read()


def test_what_is_the_same_is_not_written_again(tmp_path: Path) -> None:
    files = a_folder(tmp_path)
    files.write("w1", 0, DeviceGrant(), ())
    (path,) = tmp_path.iterdir()
    before = path.stat()
    files.write("w1", 0, DeviceGrant(), ())
    assert path.stat() == before


@pytest.mark.parametrize("step", STEPS)
def test_a_crash_at_any_step_leaves_the_file_before_whole(tmp_path: Path, step: str) -> None:
    files = a_folder(tmp_path)
    files.write("w1", 0, DeviceGrant({"A": "1"}), ())
    (path,) = tmp_path.iterdir()
    before = path.read_text()
    with crash_at(step):
        files.write("w1", 0, DeviceGrant({"A": "2"}), ())
    assert path.read_text() == before
    again = a_folder(tmp_path)
    assert list(tmp_path.iterdir()) == [path]
    again.write("w1", 0, DeviceGrant({"A": "2"}), ())
    assert '"2"' in path.read_text()


def test_a_failure_leaves_nothing_half_written(tmp_path: Path) -> None:
    files = a_folder(tmp_path)
    files.write("w1", 0, DeviceGrant(), ())
    (path,) = tmp_path.iterdir()
    files.remove("w1", 1)
    path.mkdir()
    with pytest.raises(Unavailable, match="cannot write the devices file"):
        files.write("w1", 0, DeviceGrant(), ())
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_removed_is_said_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "files").touch()
    with caplog.at_level(logging.WARNING):
        DevicesFiles(tmp_path / "files").remove("w1", 1)
    assert "cannot remove the devices file" in caplog.text
