"""Size caps, prints, and room docstrings.  `python -m tests.arch` lists every breach; a test asserts there is none."""

from __future__ import annotations

import ast
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "harnesstrain"
CAP = 400
COMMAND_CAP = 150
MEDIAN_CAP = 170
VENDORED = {"sdk.py"}
"""One file by contract: it is copied into harness repos as a whole."""


def breaches() -> list[str]:
    """Every breach, one line each."""
    files = sorted(PACKAGE.rglob("*.py"))
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    found = []
    for path, size in sizes.items():
        name = path.relative_to(ROOT).as_posix()
        cap = COMMAND_CAP if "cli/commands/" in name else CAP
        if size > cap and path.name not in VENDORED:
            found.append(f"{name}: {size} lines, the cap is {cap}")
        found += [f"{name}: {problem}" for problem in _content(path)]
    median = statistics.median(size for path, size in sizes.items() if path.name != "__init__.py")
    if median > MEDIAN_CAP:
        found.append(f"the median file has {median:g} lines, the cap is {MEDIAN_CAP}")
    for room in sorted(path for path in PACKAGE.iterdir() if (path / "__init__.py").is_file()):
        found += _room(room)
    return found


def _content(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [] if ast.get_docstring(tree) else ["no module docstring"]
    if path.stem in ("utils", "helpers", "manager"):
        found.append("name the concept, not the drawer")
    if "cli" not in path.parts:
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                found.append(f"line {node.lineno} prints; only cli does")
    return found


def _room(room: Path) -> list[str]:
    """Files that a room's docstring does not name."""
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    missing = []
    for path in sorted(room.iterdir()):
        if path.name.startswith(("_", ".")) or (path.is_dir() and not (path / "__init__.py").is_file()):
            continue
        name = f"{path.name}/" if path.is_dir() else path.name
        if (path.suffix == ".py" or path.is_dir()) and name not in text:
            missing.append(f"harnesstrain/{room.name}/__init__.py does not name {name}")
    return missing
