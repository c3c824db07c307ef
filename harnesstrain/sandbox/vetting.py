"""What no engine takes, said before one is asked: no instruction of a Dockerfile, no possible name of an image."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from harnesstrain.core.errors import ConfigError

INSTRUCTIONS = frozenset(
    (
        *("ADD", "ARG", "CMD", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "LABEL", "MAINTAINER"),
        *("ONBUILD", "RUN", "SHELL", "STOPSIGNAL", "USER", "VOLUME", "WORKDIR"),
    )
)
LONGEST = 255
"""Characters of an image's name without tag and digest."""
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)(?::\w[\w.-]{{0,127}})?(?:@[A-Za-z][\w.+-]*:[0-9a-fA-F]{{32,}})?",
    re.ASCII,
)
_ESCAPE = re.compile(r"(?:#[^\n]*\n)*?#\s*escape\s*=\s*(\S)\s*(?:\n|$)", re.IGNORECASE)
_HERE = re.compile(r"\d*<<(-?)([\"']?)(\w+)\2")


def read(file: Path) -> str:
    """A Dockerfile's text.

    Raises ConfigError: unreadable, no FROM, a line that starts with no instruction, a file from outside the context.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}", hint="a task needs environment/Dockerfile") from error
    words = []
    for line, word, rest in _instructions(text):
        if word not in INSTRUCTIONS:
            msg = f"Dockerfile line {line}: {word} is no instruction"
            raise ConfigError(msg, hint=f"correct {file}; a line that goes on ends with a backslash")
        for source in _sources(rest) if word in ("ADD", "COPY") else ():
            if posixpath.normpath(source).split("/")[0] == "..":
                msg = f"Dockerfile line {line}: {word} {source} leaves the build context"
                raise ConfigError(msg, hint=f"put what it needs into {file.parent}")
        words.append(word)
    if "FROM" not in words:
        raise ConfigError(f"{file} has no FROM", hint="its first instruction names the image to start from")
    return text


def check_image(name: str) -> None:
    """Raises ConfigError unless an engine could look for an image of that name."""
    found = _IMAGE.fullmatch(name)
    if found is None or len(found["name"]) > LONGEST:
        raise ConfigError(f"'{name}' is no name of an image", hint="it is [HOST/]NAME[:TAG][@DIGEST], in small letters")


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, first word and the rest of every instruction; what is in a here-document is none."""
    directive = _ESCAPE.match(text)
    goes_on = re.compile(re.escape(directive[1] if directive else "\\") + r"[ \t]*$")
    lines = iter(enumerate(text.splitlines(), start=1))
    for number, line in lines:
        whole = line if _says(line) else ""
        while goes_on.search(whole):
            whole = goes_on.sub("", whole) + next((one for _, one in lines if _says(one)), "")
        words = whole.split()
        if not words:
            continue
        yield number, words[0].upper(), whole.strip()[len(words[0]) :].strip()
        if words[0].upper() in ("ADD", "COPY", "RUN", "ONBUILD"):
            for found in filter(None, map(_HERE.fullmatch, words)):
                end, tabs = found[3], "\t" if found[1] else ""
                next((one for _, one in lines if one.lstrip(tabs) == end), None)


def _sources(rest: str) -> list[str]:
    """What a COPY takes from the build context."""
    try:
        words = json.loads(rest) if rest.startswith("[") else rest.split()
    except ValueError:
        return []
    named = [word for word in words if isinstance(word, str) and not word.startswith("--")]
    return [] if "--from=" in rest else named[:-1]


def _says(line: str) -> bool:
    """Whether a line is more than blank or a comment."""
    return line.strip() != "" and not line.lstrip().startswith("#")
