"""Stand-ins on PATH and in a site directory: a driver's tool, and packages with the parsers of the real servers."""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import pytest

SMI = """#!/bin/sh
echo '{line}'
"""
SGLANG_ARGS = """
import argparse
class ServerArgs:
    @staticmethod
    def add_cli_args(parser):
        for name in ("model-path", "served-model-name", "host", "random-seed", "mamba-ssm-dtype"):
            parser.add_argument("--" + name)
        for name in ("port", "max-running-requests", "context-length"):
            parser.add_argument("--" + name, type=int)
        parser.add_argument("--attention-backend", choices=["triton", "fa3"])
        for name in ("enable-deterministic-inference", "disable-radix-cache", "enable-cache-report"):
            parser.add_argument("--" + name, action="store_true")
"""
LAUNCH = """
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
arguments = sys.argv[1:]
port = int(arguments[arguments.index("--port") + 1])
name = arguments[arguments.index("--served-model-name") + 1]
class Handler(BaseHTTPRequestHandler):
    def log_message(self, *a): pass
    def say(self, body):
        data = json.dumps(body).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(data))); self.end_headers()
        self.wfile.write(data)
    def do_GET(self):
        if self.path == "/server_info":
            return self.say({"version": "9.9", "argv": None})
        self.say({"data": [{"id": name, "owned_by": "sglang", "max_model_len": 4096}]})
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        choice = {"message": {"content": "four"}, "finish_reason": "stop"}
        self.say({"choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 1}})
HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
VLLM_ARGS = """
def make_arg_parser(parser):
    parser.add_argument("model_tag", nargs="?")
    for name in ("served-model-name", "host", "dtype"):
        parser.add_argument("--" + name)
    for name in ("port", "max-num-seqs", "max-model-len"):
        parser.add_argument("--" + name, type=int)
    return parser
"""


def script(place: Path, text: str) -> Path:
    """An executable."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)
    place.chmod(place.stat().st_mode | stat.S_IXUSR)
    return place


def gpu(folder: Path, line: str = "NVIDIA H200, 9.0, 12, 143771") -> Path:
    """A directory for PATH whose driver's tool shows one GPU."""
    return script(folder / "nvidia-smi", SMI.format(line=line)).parent


def package(site: Path, name: str, version: str, files: dict[str, str]) -> None:
    """An installed package: its modules and its metadata."""
    for path, text in {"__init__.py": "", **files}.items():
        file = site / name / path
        file.parent.mkdir(parents=True, exist_ok=True)
        for folder in [file.parent, *file.parent.parents]:
            if folder == site:
                break
            (folder / "__init__.py").touch()
        file.write_text(text)
    facts = site / f"{name}-{version}.dist-info"
    facts.mkdir(exist_ok=True)
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def install(monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    """Make a site directory importable, here and in what is started."""
    site.mkdir(exist_ok=True)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site))
    for name in [name for name in sys.modules if name.partition(".")[0] in ("sglang", "vllm")]:
        monkeypatch.delitem(sys.modules, name)
