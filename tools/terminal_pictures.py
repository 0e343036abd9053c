#!/usr/bin/env python3
"""Draws docs/pictures/*.svg from the real programs: what a terminal shows after the commands of a scene were typed in.

Usage: tools/terminal_pictures.py [--check] [SCENE...]      default: all scenes; --check only reports what has changed

A scene runs in a terminal of tmux with a separate shell; its expected text must appear, then the screen is saved. The
pictures need no external font. The path of this repository is shown as ~/ankaios, and times are
replaced. Needs tmux, and the default port of the server to be free.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from io import StringIO
from itertools import count
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.style import Style
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs/pictures"
SHOWN_ROOT = "~/ankaios"
WAIT_SECONDS = 60.0
CHARACTER, LINE, MARGIN, BAR = 8.43, 19, 14, 46  # width and height of one character, frame, title bar
DOTS = ("#ff5f57", "#febc2e", "#28c840")
STYLE = """
text { font: 14px 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #d9d9d9 }
.title { font: bold 13px sans-serif; text-anchor: middle; fill: #9aa0a6 }
.bold { font-weight: bold } .under { text-decoration: underline } .dim { opacity: 0.6 }
"""
PLAIN = Console(file=StringIO(), force_terminal=True, color_system="truecolor")


@dataclass(frozen=True)
class Scene:
    """`command` is typed in a terminal of this size once `cluster` runs; the picture is taken when `until` is seen.

    Both are typed in the repository, or in a folder with nothing but the manifest `shop.yaml`. `setup` is typed before
    `command` and is not part of the picture; it needs such a folder.
    """

    title: str
    command: str
    until: str
    width: int = 92
    height: int = 24
    cluster: str | None = None
    shop: str = ""
    setup: str = ""
    stop: bool = False  # by Ctrl+C, because it would run for ever
    fresh: bool = False  # `ank` is not on the path, as in a new clone


def up(example: str) -> str:
    return f"ank up --runtime native {ROOT}/examples/{example}/manifest.yaml"


WRONG = """\
apiVersion: v1
workloads:
  web:
    agent: node
    runtime: podmn
    runtimeConfig: |
      image: nginx:1.27
  db:
    agent: node
    runtime: podman
    dependencies: {api: ADD_COND_RUNNING}
    runtimeConfig: |
      imge: postgres:17
  api:
    agent: node
    runtime: native
    dependencies: {db: ADD_COND_RUNNING}
    runtimeConfig: |
      command: [serve]
"""
SEVERAL = """\
apiVersion: v1
workloads:
  recorder:
    agent: edge-2
    runtime: native
    restartPolicy: ON_FAILURE
    runtimeConfig: |
      command: [sh, -c, "echo no space left on the disk >&2; sleep 1; exit 28"]
  uploader:
    agent: edge-2
    runtime: native
    dependencies: {recorder: ADD_COND_SUCCEEDED}
    runtimeConfig: |
      command: [sleep, "1000"]
  detector:
    agent: edge-1
    runtime: native
    runtimeConfig: |
      command: [sh, -c, "while true; do i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.2; done"]
  web:
    agent: edge-1
    runtime: native
    health: {exec: {command: ["true"], interval: 1s}}
    runtimeConfig: |
      command: [python3, -m, http.server, "0"]
"""
FAILING = """\
apiVersion: v1
workloads:
  api:
    agent: front
    runtime: native
    dependencies: {database: ADD_COND_RUNNING}
    runtimeConfig: |
      command: ["/bin/sh", "-c", "sleep 1; echo cannot open /data/db; exit 4"]
  report:
    agent: rear
    runtime: native
    dependencies: {api: ADD_COND_SUCCEEDED}
    runtimeConfig: |
      command: ["/bin/sh", "-c", "echo all is well"]
"""


def safe_changes(width: int) -> "dict[str, Scene]":
    """The commands of the tutorial about safe updates, in a terminal of this width."""
    apply = "ank --no-wait apply shop.yaml; until ank why report | grep -q data/db; do sleep 0.2; done"
    shown = {
        "plan": ("ank plan shop.yaml", r"report(?s:.)*^\$$", ""),
        "rollout": ("ank rollout status", r"restored(?s:.)*^\$$", "ank apply --atomic shop.yaml"),
        "why": ("ank why report", r"data/db(?s:.)*^\$$", apply),
        "timeline": ("ank describe workload api", r"Timeline(?s:.)*ExecFailed(?s:.)*^\$$", apply),
    }
    return {
        f"{name}-{width}": Scene(
            f"{command}, {width} columns", command, until,
            width=width, height=40, cluster=up("dependencies"), shop=FAILING, setup=setup,
        )
        for name, (command, until, setup) in shown.items()
    }  # fmt: skip


SCENES = {
    "demo": Scene(
        "scripts/demo",
        "scripts/demo",
        r"dashboard .*Running\(Ok\)(?s:.)*recorder .*Running\(Ok\)(?s:.)*Ctrl\+C",
        stop=True,
        fresh=True,
    ),
    "validate": Scene("ank validate", "ank validate shop.yaml", r"in 1 file", width=116, shop=WRONG),
    "doctor": Scene("ank doctor", "ank doctor", r"All fine|to fix", width=100, cluster=up("dependencies")),
    "describe": Scene(
        "ank describe",
        "ank describe workload api",
        r"database .*Running(?s:.)*Timeline(?s:.)*Running\(Ok\)(?s:.)*^\$$",
        cluster=up("dependencies"),
        width=100,
    ),
    "top": Scene(
        "ank top",
        "ank top",
        r"recorder .*Failed(?s:.)*uploader (?s:.)*detector .*MiB(?s:.)*web .*MiB",
        cluster="ank up --runtime native shop.yaml",
        shop=SEVERAL,
        width=140,
        height=14,
        stop=True,
    ),
    "devices": Scene(
        "who uses which device",
        "ank get devices; ank get resources",
        r"single(?s:.)*akri.sh(?s:.)*^\$$",
        cluster=up("device-sharing"),
    ),
    **safe_changes(80),
    **safe_changes(120),
}


class Terminal:
    """One tmux server with one window; removed by `close`."""

    def __init__(self, width: int, height: int, shop: str = "", *, fresh: bool = False) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="pictures-"))
        (self._folder / "shop.yaml").write_text(shop)
        place = self._folder if shop else ROOT
        path = "$PATH" if fresh else f"{quote(str(ROOT / '.venv/bin'))}:$PATH"
        prompt = self._folder / "bashrc"
        setup = ["PS1='$ '", f"PATH={path}", "export ANK_INSECURE=true", "unset HISTFILE", f"cd {quote(str(place))}"]
        prompt.write_text("\n".join([*setup, ""]))
        environ = {name: value for name, value in os.environ.items() if name not in ("TMUX", "NO_COLOR")}
        size = ["-x", str(width), "-y", str(height)]
        self._tmux("new-session", "-d", *size, "bash", "--noprofile", "--rcfile", str(prompt), environ=environ)

    def _tmux(self, *arguments: str, environ: dict[str, str] | None = None) -> str:
        command = ["tmux", "-S", str(self._folder / "socket"), "-f", "/dev/null", *arguments]
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=10).stdout

    def type(self, *keys: str) -> None:
        self._tmux("send-keys", *keys)

    def shown(self, *, colours: bool = False) -> str:
        return self._tmux("capture-pane", "-p", *(["-e"] if colours else [])).rstrip()

    def wait_for(self, pattern: str) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while not re.search(pattern, self.shown(), re.MULTILINE):
            if time.monotonic() > until:
                raise SystemExit(f"'{pattern}' was not seen in time, but:\n{self.shown()}")
            time.sleep(0.1)

    def prepare(self, command: str) -> None:
        """Run a command and clear the screen."""
        self.type(f"{command}; clear; touch done", "Enter")
        until = time.monotonic() + WAIT_SECONDS
        while not (self._folder / "done").exists():
            if time.monotonic() > until:
                raise SystemExit(f"'{command}' has not ended in time:\n{self.shown()}")
            time.sleep(0.1)
        self.wait_for(r"^\$$")

    def close(self) -> None:
        self._tmux("kill-server")
        shutil.rmtree(self._folder, ignore_errors=True)


def play(scene: Scene) -> str:
    """The screen with its colours."""
    cluster = Terminal(100, 30, scene.shop) if scene.cluster else None
    terminal = Terminal(scene.width, scene.height, scene.shop, fresh=scene.fresh)
    try:
        if cluster and scene.cluster:
            cluster.type(scene.cluster, "Enter")
            cluster.wait_for(r"Running\(Ok\)(?s:.)*Running\(Ok\)")
        terminal.wait_for(r"^\$$")
        if scene.setup:
            terminal.prepare(scene.setup)
        terminal.type(scene.command, "Enter")
        terminal.wait_for(scene.until)
        screen = terminal.shown(colours=True)
        if scene.stop:
            terminal.type("C-c")
            terminal.wait_for(r"^\$$")
        return screen
    finally:
        if cluster:
            cluster.type("C-c")
            cluster.wait_for(r"^\$$")
            cluster.close()
        terminal.close()


def draw(scene: Scene, screen: str) -> str:
    """Each piece of text stands at the place of its first character and is as wide as its characters, in any font."""
    lines = with_fixed_times(screen).replace(str(ROOT), SHOWN_ROOT).removesuffix("\n$").splitlines()
    width, height = round(scene.width * CHARACTER + 2 * MARGIN), len(lines) * LINE + BAR + MARGIN
    dots = "".join(f'<circle cx="{20 + 18 * n}" cy="18" r="5.5" fill="{c}"/>' for n, c in enumerate(DOTS))
    body = "\n".join(piece for number, line in enumerate(lines) for piece in pieces(number, line))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" aria-label="{escape(scene.title)}">\n<style>{STYLE}</style>\n'
        f'<rect width="{width}" height="{height}" rx="8" fill="#16181d"/>{dots}\n'
        f'<text x="{width / 2}" y="22" class="title">{escape(scene.title)}</text>\n{body}\n</svg>\n'
    )


def with_fixed_times(screen: str) -> str:
    """Times of this century are replaced, one second after the other: a picture depends only on the program."""
    seconds = count()
    screen = re.sub(r"\d\d:\d\d:\d\d \(\d+ s\)", "10:31:00 (2 s)", screen)
    return re.sub(
        r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", lambda _: f"2026-01-15 10:31:{next(seconds):02}.000", screen
    )


def pieces(number: int, line: str) -> Iterator[str]:
    column = 0
    for segment in Text.from_ansi(line).render(PLAIN):
        for found in re.finditer(r"\S+(?: \S+)*", segment.text):
            x, y = MARGIN + (column + found.start()) * CHARACTER, BAR + number * LINE + 8
            text, length = escape(found.group()), len(found.group()) * CHARACTER
            yield f'<text x="{x:.1f}" y="{y}" textLength="{length:.1f}"{look(segment.style)}>{text}</text>'
        column += len(segment.text)


def look(style: Style | None) -> str:
    if style is None:
        return ""
    colour = f' style="fill: {style.color.get_truecolor(MONOKAI).hex}"' if style.color else ""
    classes = [name for name, on in (("bold", style.bold), ("under", style.underline), ("dim", style.dim)) if on]
    return colour + (f' class="{" ".join(classes)}"' if classes else "")


def main(words: list[str]) -> int:
    if shutil.which("tmux") is None:
        print("pictures of terminals need tmux:  apt-get install tmux", file=sys.stderr)
        return 1
    only_check = "--check" in words
    changed = False
    for name in [word for word in words if word != "--check"] or SCENES:
        picture, file = draw(SCENES[name], play(SCENES[name])), TARGET / f"{name}.svg"
        if only_check and file.read_text() != picture:
            print(f"docs/pictures/{name}.svg is not what the program shows now:\n{picture}", file=sys.stderr)
            changed = True
        elif not only_check:
            file.write_text(picture)
            print(f"docs/pictures/{name}.svg")
    return int(changed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
