#!/usr/bin/env python3
"""Draws docs/pictures/architecture.svg: the programs, what they hold and what flows between them."""

from dataclasses import dataclass
from pathlib import Path

TARGET = Path(__file__).resolve().parent.parent / "docs/pictures/architecture.svg"
WIDTH, HEIGHT = 940, 560


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
            parts.append(f'<text x="{middle}" y="{self.y + 44 + 18 * number}">{line}</text>')
        return "".join(parts)


def arrow(x1: int, y1: int, x2: int, y2: int, label: str, dx: int = 0, dy: int = -8) -> str:
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" marker-end="url(#tip)" marker-start="url(#tip)"/>'
        f'<text class="label" x="{(x1 + x2) / 2 + dx}" y="{(y1 + y2) / 2 + dy}">{label}</text>'
    )


BOXES = (
    Box(
        20, 40, 220, 110, "ank", ("commands, tables,", "waiting, events, logs", "validate · doctor · certs"), "program"
    ),
    Box(340, 20, 280, 150, "ank-server", (), "program"),
    Box(355, 55, 120, 100, "core", ("ServerState", "EventHandler", "DeviceDesk")),
    Box(485, 55, 120, 100, "shell", ("gRPC, mTLS", "hooks", "manifest")),
    Box(700, 40, 220, 110, "other clients", ("Ankaios ank, SDK tools,", "commanders"), "outside"),
    Box(20, 250, 430, 290, "ank-agent on node 1", (), "program"),
    Box(35, 285, 190, 90, "core", ("runtime manager", "life cycle, dependencies")),
    Box(245, 285, 190, 90, "control interface", ("frames, access rules",)),
    Box(35, 395, 190, 130, "devices", ("discovery handlers", "slot ledger", "device plugins", "device manager")),
    Box(245, 395, 190, 130, "runtimes", ("podman · podman-kube", "containerd · native")),
    Box(490, 250, 430, 70, "ank-agent on node 2", ("ours, or an unmodified Ankaios agent",), "program"),
    Box(530, 420, 180, 105, "workloads", ("containers, pods,", "processes"), "outside"),
    Box(740, 420, 180, 105, "kubelet", ("the same plugins,", "with --kubelet-dir"), "outside"),
)
ARROWS = (
    arrow(242, 95, 338, 95, "gRPC"),
    arrow(622, 95, 698, 95, "gRPC"),
    arrow(420, 172, 300, 248, "desired ↓  states ↑", -95, 4),
    arrow(540, 172, 660, 248, "desired ↓  states ↑", 85, 4),
    arrow(437, 460, 528, 460, "starts"),
    arrow(437, 345, 600, 418, "FIFOs", 34, -4),
)
STYLE = """
text { font: 13px sans-serif; text-anchor: middle; fill: #24292f }
.title { font-weight: bold } .label { font-size: 12px; fill: #57606a }
rect { stroke: #57606a; stroke-width: 1.2 } .program { fill: #eef2ff } .part { fill: #ffffff } .outside { fill: #f6f8fa; stroke-dasharray: 5 4 }
line { stroke: #57606a; stroke-width: 1.4 }
"""  # noqa: E501


def main() -> None:
    tip = (
        '<marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0 0L8 4L0 8z" fill="#57606a"/></marker>'
    )
    body = "\n".join([*(box.svg() for box in BOXES), *ARROWS])
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">'
        f'<style>{STYLE}</style><defs>{tip}</defs><rect width="100%" height="100%" fill="white" stroke="none"/>\n'
        f"{body}\n</svg>\n"
    )


if __name__ == "__main__":
    main()
