"""A command line, read by the installed server's own parser before anything is started.

Which flags a server knows changes with its version.  A Python server is asked in a process of its own, which imports
its argument parser and starts nothing; llama-server is asked for its help text.
"""

from __future__ import annotations

import json
import logging
import re
import subprocess
from collections.abc import Sequence

from harnesstrain.core.errors import Prerequisite, UsageError

log = logging.getLogger(__name__)

TIMEOUT = 600.0
"""Seconds for importing a server's parser: it brings its tensor library along."""

_READER = """
import importlib, json, sys
asked = json.load(sys.stdin)
class Refused(Exception): pass
class Reader:
    def error(self, message): raise Refused(message)
    def exit(self, status=0, message=None): raise Refused(message or "it ended the parsing")
answer = {}
try:
    importlib.import_module(asked["package"])
except Exception as problem:
    answer["broken"] = f"{type(problem).__name__}: {problem}"
else:
    try:
        parser = make()
    except (ImportError, AttributeError) as problem:
        answer["elsewhere"] = f"{type(problem).__name__}: {problem}"
    else:
        parser.error, parser.exit = Reader().error, Reader().exit
        try:
            answer["unknown"] = [word for word in parser.parse_known_args(asked["words"])[1] if word.startswith("--")]
        except Refused as problem:
            answer["refused"] = str(problem)
print("\\n" + json.dumps(answer))
"""

_PARSERS = {
    "sglang": """
def make():
    from sglang.srt.server_args import ServerArgs
    parser = argparse.ArgumentParser(prog="sglang", allow_abbrev=False)
    ServerArgs.add_cli_args(parser)
    return parser
""",
    "vllm": """
def make():
    try:
        from vllm.utils.argparse_utils import FlexibleArgumentParser
    except ImportError:
        from vllm.utils import FlexibleArgumentParser
    from vllm.entrypoints.openai.cli_args import make_arg_parser
    return make_arg_parser(FlexibleArgumentParser(prog="vllm serve"))
""",
}


def check_python(package: str, version: str, words: Sequence[str], *, python: str) -> bool:
    """Have the parser of `package`, as installed for the interpreter `python`, read `words`.

    False when this version keeps its parser somewhere unknown: nothing was checked.  Raises UsageError (a flag or a
    value that it does not know), Prerequisite (the package cannot be imported).
    """
    program = f"import argparse\n{_PARSERS[package]}\n{_READER}"
    asked = json.dumps({"package": package, "words": list(words)})
    try:
        done = subprocess.run(
            [python, "-c", program],
            input=asked,
            capture_output=True,
            text=True,
            cwd="/",
            timeout=TIMEOUT,
            check=False,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        message = f"{package} {version} did not load its arguments within {TIMEOUT:g} s"
        raise Prerequisite(message, hint=f"try `python -c 'import {package}'`") from None
    except (OSError, ValueError, IndexError):
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise Prerequisite(f"{package} {version} cannot be loaded: {last[0]}", hint=_mend(package)) from None
    if "broken" in answer:
        raise Prerequisite(f"{package} {version} cannot be loaded: {answer['broken']}", hint=_mend(package))
    if "elsewhere" in answer:
        log.warning("the flags were not checked: %s %s keeps its parser elsewhere", package, version)
        return False
    if "refused" in answer:
        raise UsageError(f"{package} {version} refuses the flags: {answer['refused']}", hint="see its documentation")
    if answer["unknown"]:
        raise _unknown(f"{package} {version}", answer["unknown"])
    return True


def check_help(program: str, words: Sequence[str]) -> bool:
    """Whether `program --help` names every flag in `words`.  False when it shows no help: nothing was checked.

    Raises UsageError for a flag that it does not name.
    """
    try:
        said = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    known = set(re.findall(r"(?<![\w-])--[a-z0-9][a-z0-9-]*", said.stdout + said.stderr))
    if said.returncode != 0 or "--port" not in known:
        log.warning("the flags were not checked: %s shows no help", program)
        return False
    unknown = [word for word in words if word.startswith("--") and word not in known]
    if unknown:
        raise _unknown("this llama-server", unknown)
    return True


def _unknown(server: str, flags: Sequence[str]) -> UsageError:
    names = ", ".join(dict.fromkeys(flag.partition("=")[0] for flag in flags))
    return UsageError(f"{server} does not know {names}", hint="leave it out, or install a version that has it")


def _mend(package: str) -> str:
    return f"`python -c 'import {package}'` shows more; install it again in the environment of ht"
