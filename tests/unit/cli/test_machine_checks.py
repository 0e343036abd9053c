"""Each finding of `ank doctor`, on described machines."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ankaios.cli.commands.doctor import print_results
from ankaios.cli.doctor.machine_checks import (
    EARLIEST_SANE_CLOCK,
    LOCAL_CHECKS,
    CheckResult,
    CheckStatus,
    Machine,
    ProgramResult,
    check_clock,
    check_native_rights,
    check_podman,
    check_run_folder,
)
from ankaios.cli.terminal.output import CliOutput


def podman_info(version: str = "4.3.1", **host: Any) -> Callable[..., ProgramResult]:
    store = {"graphRoot": "/", "graphDriverName": host.pop("driver", "overlay")}
    facts = {
        "version": {"Version": version},
        "host": {"ociRuntime": {"name": "runc"}, "cgroupVersion": "v2", "security": {"rootless": False}} | host,
        "store": store,
    }
    return lambda *_: ProgramResult(0, json.dumps(facts))


def machine(**more: Any) -> Machine:
    given: dict[str, Any] = {"find": lambda name: f"/usr/bin/{name}", "run": podman_info(), "environ": {}} | more
    return Machine(**given)


def verdicts(findings: list[CheckResult]) -> dict[str, CheckStatus]:
    return {finding.topic: finding.verdict for finding in findings}


def test_a_complete_machine_has_no_findings(tmp_path: Path) -> None:
    around = machine(environ={"TMPDIR": str(tmp_path)}, now=EARLIEST_SANE_CLOCK + 1, uid=0)
    findings = [finding for check in LOCAL_CHECKS for finding in check(around)]
    assert {finding.verdict for finding in findings} == {CheckStatus.FINE}
    assert not any(finding.fix for finding in findings)


def test_without_podman_the_native_runtime_is_named() -> None:
    [finding] = check_podman(machine(find=lambda _: None))
    assert finding.verdict is CheckStatus.NOTE
    assert "native" in finding.text
    assert finding.fix == "apt-get install podman"


def test_pods_need_a_program_that_podman_only_recommends(tmp_path: Path) -> None:
    around = machine(find=lambda name: None if name == "catatonit" else f"/usr/bin/{name}", root=tmp_path)
    [finding] = [finding for finding in check_podman(around) if finding.topic == "pods"]
    assert (finding.verdict, finding.fix) == (CheckStatus.NOTE, "apt-get install catatonit")
    helper = tmp_path / "usr/libexec/podman/catatonit"
    helper.parent.mkdir(parents=True)
    helper.touch()
    assert "pods" not in verdicts(list(check_podman(around)))


def test_an_old_podman_is_wrong() -> None:
    assert verdicts(list(check_podman(machine(run=podman_info("3.4.7")))))["podman"] is CheckStatus.WRONG


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (ProgramResult(125, "a\nno storage"), "no storage"),
        (ProgramResult(None, "timed out"), "timed out"),
        (ProgramResult(0, "no json"), "unexpected"),
        (ProgramResult(0, "{}"), "unexpected"),
    ],
)
def test_a_broken_podman_is_wrong_with_the_reason(answer: ProgramResult, part: str) -> None:
    [finding] = check_podman(machine(run=lambda *_: answer))
    assert finding.verdict is CheckStatus.WRONG
    assert part in finding.text


def test_crun_on_old_cgroups_is_reported() -> None:
    around = machine(run=podman_info(ociRuntime={"name": "crun"}, cgroupVersion="v1"))
    assert verdicts(list(check_podman(around)))["cgroups"] is CheckStatus.NOTE


def test_the_copying_storage_driver_is_reported() -> None:
    findings = list(check_podman(machine(run=podman_info(driver="vfs"))))
    assert findings[-1].verdict is CheckStatus.NOTE


@pytest.mark.parametrize(("owner", "verdict"), [("edge", CheckStatus.FINE), ("other", CheckStatus.WRONG)])
def test_rootless_podman_needs_subordinate_ids(tmp_path: Path, owner: str, verdict: CheckStatus) -> None:
    (tmp_path / "etc").mkdir()
    for name in ("subuid", "subgid"):
        (tmp_path / "etc" / name).write_text(f"{owner}:100000:65536\n")
    around = machine(run=podman_info(security={"rootless": True}), root=tmp_path, environ={"USER": "edge"}, uid=1000)
    assert verdicts(list(check_podman(around)))["rootless"] is verdict


@pytest.mark.parametrize("environ", [{}, {"USER": "root"}])
def test_the_ranges_of_the_user_id_count_not_those_of_the_user_variable(
    tmp_path: Path, environ: dict[str, str]
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n\nedge:x:1000:1000::/home/edge:/bin/sh\n")
    for name in ("subuid", "subgid"):
        (tmp_path / "etc" / name).write_text("edge:100000:65536\n")
    around = machine(run=podman_info(security={"rootless": True}), root=tmp_path, environ=environ, uid=1000)
    assert verdicts(list(check_podman(around)))["rootless"] is CheckStatus.FINE


def test_a_run_folder_that_cannot_be_written_is_wrong(tmp_path: Path) -> None:
    [finding] = check_run_folder(machine(environ={"TMPDIR": str(tmp_path / "missing")}))
    assert finding.verdict is CheckStatus.WRONG
    assert "--run-folder" in finding.fix


def test_a_run_folder_that_other_users_can_replace_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "ankaios").mkdir()
    (tmp_path / "ankaios").chmod(0o777)
    [finding] = check_run_folder(machine(environ={"TMPDIR": str(tmp_path)}))
    assert finding.verdict is CheckStatus.WRONG
    assert "every user could replace everything in it" in finding.text
    (tmp_path / "ankaios").chmod(0o1777)
    [finding] = check_run_folder(machine(environ={"TMPDIR": str(tmp_path)}))
    assert finding.verdict is CheckStatus.FINE


def test_a_lost_clock_is_wrong() -> None:
    assert verdicts(list(check_clock(machine(now=0.0)))) == {"clock": CheckStatus.WRONG}


@pytest.mark.parametrize(("uid", "verdict"), [(0, CheckStatus.FINE), (1000, CheckStatus.NOTE)])
def test_rights_for_native_workloads(uid: int, verdict: CheckStatus) -> None:
    assert verdicts(list(check_native_rights(machine(uid=uid)))) == {"native": verdict}


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (36, ["no server listens", "there", "fix: start one with", "'ank up'"]),
        (65535, ["no server listens there", "fix: start one with 'ank up'"]),
    ],
)
def test_findings_stay_in_their_column(width: int, shown: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CliOutput, "width", width)
    stdout = io.StringIO()
    print_results(
        CliOutput(stdout),
        [CheckResult("server", CheckStatus.WRONG, "no server listens there", "start one with 'ank up'")],
    )
    assert stdout.getvalue() == "wrong  server  " + f"\n{' ' * 15}".join(shown) + "\n"
