#!/usr/bin/env python3
"""Changes the code beside each [impl->ID] tag and checks that the tests beside [utest->ID] fail.

Usage: tools/mutate_tagged.py [--also-slow] [--limit SECONDS] [ID...]

The repository is copied to a temporary folder; the original is not changed. A tag in the docstring of a function
changes this function: it returns None, or its first condition is inverted. A tag in a comment changes the statement
beside it. A tag of a class empties its methods or changes its constants; a tag of a module, its functions. Only the
tagged tests run: unit tests first, and with --also-slow those tagged [itest->ID] and [stest->ID] if the change is not
noticed. Prints one line for each change and the number of survivors; ends with 1 if there are any.
"""

import argparse
import ast
import compileall
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
TAG = re.compile(r"\[(impl|utest|itest|stest)->([a-z]+~[a-z0-9-]+~\d+)\]")
Function = ast.FunctionDef | ast.AsyncFunctionDef
QUIET = ("-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly")


class Mutant(NamedTuple):
    path: Path  # relative to the repository
    line: int
    what: str
    source: str


# --- changes of the code


def _lines_of(source: str) -> list[str]:
    return source.splitlines(keepends=True)


def _replaced(source: str, first: int, last: int, text: str) -> str:
    """The lines first to last, counted from 1, replaced by one line with the indentation of the first."""
    lines = _lines_of(source)
    indent = lines[first - 1][: len(lines[first - 1]) - len(lines[first - 1].lstrip())]
    return "".join([*lines[: first - 1], f"{indent}{text}\n", *lines[last:]])


def _body(node: Function) -> list[ast.stmt]:
    """The statements after the docstring; none if there is only `...`."""
    body = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    is_stub = len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
    return [] if is_stub else body


def _with_body(source: str, node: Function, text: str) -> str | None:
    body = _body(node)
    if not body or body[0].lineno == node.lineno:
        return None
    return _replaced(source, body[0].lineno, node.end_lineno or body[-1].lineno, text)


def _conditions(node: ast.AST) -> Iterator[ast.expr]:
    for part in ast.walk(node):
        if isinstance(part, ast.If | ast.While | ast.IfExp):
            yield part.test
        elif isinstance(part, ast.comprehension):
            yield from part.ifs
        elif isinstance(part, ast.match_case) and part.guard is not None:
            yield part.guard
        elif isinstance(part, ast.Return) and isinstance(part.value, ast.Compare | ast.BoolOp | ast.UnaryOp):
            yield part.value


def _inverted(source: str, node: ast.AST) -> str | None:
    found = sorted(_conditions(node), key=lambda part: (part.lineno, part.col_offset))
    if not found:
        return None
    part = found[0]
    lines = [line.encode() for line in _lines_of(source)]
    end_line, end = part.end_lineno or part.lineno, part.end_col_offset or 0
    lines[end_line - 1] = lines[end_line - 1][:end] + b"))" + lines[end_line - 1][end:]
    lines[part.lineno - 1] = (
        lines[part.lineno - 1][: part.col_offset] + b"(not (" + lines[part.lineno - 1][part.col_offset :]
    )
    return b"".join(lines).decode()


def _changed_constant(source: str, value: ast.expr) -> str | None:
    """Another number or text for the first constant of an expression."""
    for part in ast.walk(value):
        if isinstance(part, ast.Constant) and isinstance(part.value, int | float | str) and part.end_col_offset:
            other = _other_value(part.value)
            lines = [line.encode() for line in _lines_of(source)]
            if part.lineno != part.end_lineno:
                continue
            line = lines[part.lineno - 1]
            lines[part.lineno - 1] = line[: part.col_offset] + repr(other).encode() + line[part.end_col_offset :]
            return b"".join(lines).decode()
    return None


def _other_value(value: float | str) -> object:
    if isinstance(value, bool):
        return not value
    return f"{value}x" if isinstance(value, str) else value * 120 + 1


def _of_function(source: str, node: Function) -> Iterator[tuple[str, str | None]]:
    yield f"{node.name} returns None", _with_body(source, node, "return None")
    yield f"{node.name} inverts its first condition", _inverted(source, node)


def _of_many(source: str, functions: list[Function], name: str) -> Iterator[tuple[str, str | None]]:
    changed = source
    for node in sorted(functions, key=lambda each: -each.lineno):  # from the end, so that lines keep their numbers
        changed = _with_body(changed, node, "return None") or changed
    yield f"all functions of {name} return None", changed if changed != source else None


def _of_statement(source: str, node: ast.stmt | ast.match_case) -> Iterator[tuple[str, str | None]]:
    if isinstance(node, ast.match_case):
        last = node.body[-1].end_lineno or node.body[-1].lineno
        if node.body[0].lineno > node.pattern.lineno:
            yield "the case does nothing", _replaced(source, node.body[0].lineno, last, "pass")
        return
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _of_function(source, node)
        return
    if isinstance(node, ast.ClassDef):
        yield from _of_class(source, node)
        return
    if isinstance(node, ast.If | ast.While):
        yield "the condition is inverted", _inverted(source, node)
        return
    if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None and node.col_offset == 0:
        yield "the constant differs", _changed_constant(source, node.value)
        return
    text = "return None" if isinstance(node, ast.Return) else "pass"
    yield f"the statement becomes '{text}'", _replaced(source, node.lineno, node.end_lineno or node.lineno, text)


def _of_class(source: str, node: ast.ClassDef) -> Iterator[tuple[str, str | None]]:
    methods = [part for part in node.body if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
    yield from _of_many(source, [part for part in methods if part.name != "__init__"], node.name)
    for part in node.body:
        if isinstance(part, ast.Assign):
            yield f"{ast.unparse(part.targets[0])} differs", _changed_constant(source, part.value)


# --- from tags to code


def _holder(tree: ast.Module, line: int) -> ast.AST:
    """The innermost function or class whose lines include this one, or the module."""
    found: ast.AST = tree
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inside = node.lineno <= line <= (node.end_lineno or 0)
            if inside and (found is tree or node.lineno > getattr(found, "lineno", 0)):
                found = node
    return found


def _in_docstring(node: ast.AST, line: int) -> bool:
    body = getattr(node, "body", [])
    if not body or not isinstance(body[0], ast.Expr) or not isinstance(body[0].value, ast.Constant):
        return False
    return bool(body[0].lineno <= line <= (body[0].end_lineno or 0))


def _beside(tree: ast.Module, line: int) -> ast.stmt | ast.match_case | None:
    """The statement on this line, or else the next one."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.match_case)]
    later = [(_line_of(node), number, node) for number, node in enumerate(nodes) if _line_of(node) >= line]
    return min(later)[2] if later else None


def _line_of(node: ast.stmt | ast.match_case) -> int:
    return node.pattern.lineno if isinstance(node, ast.match_case) else node.lineno


def _changes(source: str, tree: ast.Module, line: int) -> Iterator[tuple[str, str | None]]:
    node = _holder(tree, line)
    if not _in_docstring(node, line):
        if (beside := _beside(tree, line)) is not None:
            yield from _of_statement(source, beside)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from _of_function(source, node)
    elif isinstance(node, ast.ClassDef):
        yield from _of_class(source, node)
    else:
        functions = [part for part in ast.walk(node) if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)]
        top = [part for part in functions if part.name != "__init__" and _holder_is_plain(tree, part)]
        yield from _of_many(source, top, "the module")


def _holder_is_plain(tree: ast.Module, function: Function) -> bool:
    """Not a function inside of a function."""
    return not isinstance(_holder(tree, function.lineno - 1), ast.FunctionDef | ast.AsyncFunctionDef)


def mutants() -> dict[str, list[Mutant]]:
    found: dict[str, list[Mutant]] = defaultdict(list)
    for path in sorted((ROOT / "src").rglob("*.py")):
        source = path.read_text()
        tree = ast.parse(source)
        for number, text in enumerate(source.splitlines(), 1):
            for _, requirement in TAG.findall(text):
                for what, changed in _changes(source, tree, number):
                    if changed is not None and changed != source:
                        ast.parse(changed)
                        found[requirement].append(Mutant(path.relative_to(ROOT), number, what, changed))
    return found


# --- from tags to tests


def tests() -> dict[str, dict[str, list[str]]]:
    """Requirement -> kind of test -> what pytest is called with."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        source = path.read_text()
        tree = ast.parse(source)
        for number, text in enumerate(source.splitlines(), 1):
            for kind, requirement in TAG.findall(text):
                found[requirement][kind].append(_node_id(path, tree, number))
    return found


def _node_id(path: Path, tree: ast.Module, line: int) -> str:
    node = _holder(tree, line)
    file = str(path.relative_to(ROOT))
    if isinstance(node, ast.Module):
        beside = _beside(tree, line)
        node = beside if not _in_docstring(node, line) and isinstance(beside, Function) else node
    name = getattr(node, "name", "")
    return f"{file}::{name}" if name.startswith("test") else file


# --- running


def _run_tests(copy: Path, arguments: list[str], limit: float) -> str:
    """`passed`, `failed`, or `timed out`. A fork of this process, which has loaded what takes time to load."""
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.chdir(copy)
        sink = os.open("/dev/null", os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        import pytest

        os._exit(int(pytest.main([*QUIET, *arguments])))
    until = time.monotonic() + limit
    while time.monotonic() < until:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return "passed" if os.waitstatus_to_exitcode(status) == 0 else "failed"
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "timed out"


def _copy_repository(to: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def _load_slow_packages(copy: Path) -> None:
    """Everything that tests import and no change concerns. Bytecode is only written for what is not changed."""
    sys.path[:0] = [str(copy / "src"), str(copy)]
    os.environ["PYTHONPATH"] = str(copy / "src")
    compileall.compile_dir(copy / "src", quiet=1)
    _run_tests(copy, ["--collect-only", str(copy / "tests/unit")], 300)
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    import google.protobuf.message
    import hypothesis
    import msgspec
    import pytest
    import yaml

    assert all((google.protobuf.message, hypothesis, msgspec, pytest, yaml))


def _judge(copy: Path, mutant: Mutant, nodes: dict[str, list[str]], limit: float, also_slow: bool) -> str:
    path = copy / mutant.path
    before, stamp = path.read_text(), path.stat()
    path.write_text(mutant.source)
    try:
        kinds = ["utest", "itest", "stest"] if also_slow else ["utest"]
        chosen = [kind for kind in kinds if nodes.get(kind)]
        if not chosen:
            return "no test"
        for kind in chosen:
            result = _run_tests(copy, sorted(set(nodes[kind])), limit)
            if result != "passed":
                return f"killed ({kind}{'' if result == 'failed' else ', timed out'})"
        return "SURVIVED"
    finally:
        path.write_text(before)
        os.utime(path, (stamp.st_atime, stamp.st_mtime))


def _in_rounds(changes: dict[str, list[Mutant]], parts: list[str]) -> Iterator[tuple[str, Mutant]]:
    """The first change of each requirement, then the second of each, so that a run that is stopped covers all."""
    chosen = [name for name in sorted(changes) if not parts or any(part in name for part in parts)]
    for row in zip_longest(*(changes[name] for name in chosen)):
        yield from ((name, mutant) for name, mutant in zip(chosen, row, strict=True) if mutant is not None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--also-slow", action="store_true", help="also run integration and system tests")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for the tests of one change")
    parser.add_argument("ids", nargs="*", help="requirements, or parts of their names; all if none is given")
    options = parser.parse_args()
    changes, tested = mutants(), tests()
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copy = Path(folder)
        _copy_repository(copy)
        _load_slow_packages(copy)
        for requirement, mutant in _in_rounds(changes, options.ids):
            result = _judge(copy, mutant, tested[requirement], options.limit, options.also_slow)
            counts[result.partition(" (")[0]] += 1
            print(f"{result:20} {requirement}  {mutant.path}:{mutant.line} {mutant.what}", flush=True)
    print(f"{len(changes)} requirements: " + ", ".join(f"{number} {word}" for word, number in counts.items()))
    return 1 if counts["SURVIVED"] else 0


if __name__ == "__main__":
    sys.exit(main())
