#!/usr/bin/env python3
"""Draws the pictures of docs/architecture.md: the programs with their connections, and the three flows."""

from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "docs/pictures"
STYLE = """
text { font: 13px sans-serif; text-anchor: middle; fill: #24292f }
.title { font-weight: bold } .label { font-size: 12px; fill: #57606a }
rect { stroke: #57606a; stroke-width: 1.2 } .part { fill: #ffffff } .program { fill: #eef2ff }
.outside { fill: #f6f8fa; stroke-dasharray: 5 4 } .paper { fill: #ffffff; stroke: none }
path { stroke: #57606a; stroke-width: 1.4; fill: none }
"""
TIP = (
    '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" style="fill: #57606a; stroke: none"/></marker>'
)


@dataclass(frozen=True)
class Box:
    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    css: str = "part"

    def svg(self) -> str:
        middle = self.x + self.width / 2
        parts = [
            f'<rect class="{self.css}" x="{self.x}" y="{self.y}" width="{self.width}" height="{self.height}" rx="8"/>',
            f'<text class="title" x="{middle}" y="{self.y + 22}">{self.title}</text>',
        ]
        for number, line in enumerate(self.lines):
            parts.append(f'<text x="{middle}" y="{self.y + 42 + 18 * number}">{line}</text>')
        return "".join(parts)


def arrow(way: str, label: str = "", at: tuple[int, int] = (0, 0), *, both: bool = False) -> str:
    start = ' marker-start="url(#tip)"' if both else ""
    text = f'<text class="label" x="{at[0]}" y="{at[1]}">{label}</text>' if label else ""
    return f'<path d="{way}" marker-end="url(#tip)"{start}/>{text}'


def picture(width: int, height: int, label: str, parts: list[str]) -> str:
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">'
        f'<style>{STYLE}</style><defs>{TIP}</defs><rect class="paper" width="{width}" height="{height}"/>\n'
        f"{body}\n</svg>\n"
    )


# --- the programs -----------------------------------------------------------------------------------------------------

BOXES = (
    Box(
        20, 40, 220, 110, "ank", ("commands, tables,", "waiting, events, logs", "validate · doctor · certs"), "program"
    ),
    Box(300, 20, 360, 150, "ank-server", (), "program"),
    Box(310, 55, 115, 100, "core", ("ServerState", "EventHandler", "RolloutMonitor")),
    Box(435, 55, 105, 100, "shell", ("gRPC, mTLS", "CommitQueue", "hooks")),
    Box(550, 55, 100, 100, "storage", ("memory", "SQLite", "etcd")),
    Box(700, 40, 220, 110, "other clients", ("ank of Eclipse Ankaios,", "ank dashboard, SDKs"), "outside"),
    Box(20, 250, 430, 290, "ank-agent on node 1", (), "program"),
    Box(35, 285, 190, 90, "core", ("runtime manager", "lifecycle, health")),
    Box(245, 285, 190, 90, "control interface", ("frames, access rules",)),
    Box(35, 395, 190, 130, "devices", ("discovery handlers", "slot ledger", "device plugins", "device manager")),
    Box(245, 395, 190, 130, "runtimes", ("podman · podman-kube", "containerd · native")),
    Box(490, 250, 430, 70, "ank-agent on node 2", ("ours, or one of Eclipse Ankaios",), "program"),
    Box(545, 400, 180, 85, "workloads", ("containers, pods,", "processes"), "outside"),
    Box(770, 500, 150, 75, "kubelet", ("with --kubelet-dir",), "outside"),
)
ARROWS = (
    arrow("M242 95H298", "gRPC", (270, 87), both=True),
    arrow("M662 95H698", "gRPC", (680, 87), both=True),
    arrow("M420 172L300 248", "desired ↓  states ↑", (265, 214), both=True),
    arrow("M540 172L660 248", "desired ↓  states ↑", (685, 214), both=True),
    arrow("M437 450H543", "starts", (490, 442)),
    arrow("M437 335L600 398", "FIFOs", (552, 360), both=True),
    arrow("M130 527V557H768", "device plugin API", (600, 549), both=True),
)


def programs() -> str:
    return picture(940, 595, "the three programs and their connections", [*(b.svg() for b in BOXES), *ARROWS])


# --- the flows --------------------------------------------------------------------------------------------------------

LANE, GAP, HEAD, ROW, STEP = 215, 15, 44, 74, 54  # width of a lane and between lanes; heights


@dataclass(frozen=True)
class Step:
    """A box in a lane and a row. It follows the step before it, another one, or none."""

    lane: int
    row: int
    title: str
    line: str
    after: int | None = -1

    @property
    def left(self) -> int:
        return GAP + self.lane * (LANE + GAP) + 12

    @property
    def top(self) -> int:
        return HEAD + self.row * ROW + 6

    def svg(self) -> str:
        return Box(self.left, self.top, LANE - 24, STEP, self.title, (self.line,)).svg()


def way(start: Step, end: Step) -> str:
    """Down in a lane, across in a row, or across and then down into the next box."""
    middle = start.top + STEP // 2
    if start.lane == end.lane:
        return f"M{start.left + LANE // 2 - 12} {start.top + STEP}V{end.top - 2}"
    right = end.lane > start.lane
    begin = start.left + (LANE - 24 if right else 0)
    if start.row == end.row:
        return f"M{begin} {middle}H{end.left - 2 if right else end.left + LANE - 22}"
    return f"M{begin} {middle}H{end.left + LANE // 2 - 12}V{end.top - 2}"


def walk(label: str, lanes: tuple[str, ...], steps: tuple[Step, ...]) -> str:
    height = HEAD + (max(step.row for step in steps) + 1) * ROW
    parts = [
        Box(GAP + number * (LANE + GAP), 10, LANE, height - 10, title, (), "program").svg()
        for number, title in enumerate(lanes)
    ]
    for number, step in enumerate(steps):
        parts.append(step.svg())
        if number > 0 and step.after is not None:
            parts.append(arrow(way(steps[step.after if step.after >= 0 else number - 1], step)))
    return picture(GAP + len(lanes) * (LANE + GAP), height + 14, label, parts)


APPLY = (
    Step(0, 0, "manifests", "read, check, join"),
    Step(0, 1, "update", "requests states, changes"),
    Step(0, 2, "blocking_client", "one gRPC stream"),
    Step(1, 2, "shell", "one message at a time"),
    Step(1, 3, "AnkaiosServer.decide", "render, check, commit"),
    Step(1, 4, "commit_queue", "stores, then sends"),
    Step(2, 4, "agent_manager", "receives UpdateWorkload"),
    Step(2, 5, "runtime_manager", "plans operations"),
    Step(2, 6, "dependencies", "checks start conditions"),
    Step(2, 7, "workload_task", "performs decisions"),
    Step(3, 7, "podman_runtime", "podman run"),
    Step(3, 8, "state checker", "sees the process"),
    Step(2, 8, "workload_lifecycle", "decides to report"),
    Step(1, 8, "AnkaiosServer.decide", "stores and forwards"),
    Step(0, 8, "wait_list", "marks it as done"),
)
REQUEST = (
    Step(0, 0, "output FIFO", "a request of the SDK"),
    Step(1, 0, "control_interface", "bytes to frames"),
    Step(1, 1, "authorizer", "allow rules, deny rules"),
    Step(0, 1, "input FIFO", "access denied"),
    Step(1, 2, "agent_manager", "adds the name to the id", after=2),
    Step(2, 2, "AnkaiosServer.decide", "handles the request"),
    Step(2, 3, "routing", "finds the receiver by id"),
    Step(1, 3, "workload_object", "removes the name"),
    Step(0, 3, "input FIFO", "response"),
)
CAMERA = (
    Step(0, 0, "camera", "is connected"),
    Step(1, 0, "discovery/udev/handler", "reports all devices"),
    Step(1, 1, "inventory", "finds the new one"),
    Step(1, 2, "slot_ledger", "opens its slots"),
    Step(1, 3, "pending_claims", "finds waiting workloads"),
    Step(2, 3, "workload_task", "needs two cameras"),
    Step(1, 4, "claim_plan", "chooses slots"),
    Step(1, 5, "slot_allocator", "claims them in the ledger"),
    Step(1, 6, "claim_store", "writes the claim file"),
    Step(3, 6, "create_workload", "with both cameras"),
)


def pictures() -> dict[str, str]:
    return {
        "architecture": programs(),
        "walk-apply": walk("ank apply, step by step", ("ank", "ank-server", "ank-agent", "runtime"), APPLY),
        "walk-request": walk("a request of a workload", ("workload", "ank-agent", "ank-server"), REQUEST),
        "walk-camera": walk(
            "from a connected camera to a started workload", ("the node", "devices", "workload", "runtime"), CAMERA
        ),
    }


def main() -> None:
    TARGET.mkdir(parents=True, exist_ok=True)
    for name, svg in pictures().items():
        (TARGET / f"{name}.svg").write_text(svg)


if __name__ == "__main__":
    main()
