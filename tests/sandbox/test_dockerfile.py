"""The subset of Dockerfile: what is read, what is refused, what a COPY puts where."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError, Unsupported
from harnesstrain.sandbox.build import context_entries, copied
from harnesstrain.sandbox.dockerfile import Recipe, only_root, only_writable, parse
from harnesstrain.sandbox.rootfs import read_only
from harnesstrain.sandbox.tree import entries


def recipe(folder: Path, text: str) -> Recipe:
    (folder / "Dockerfile").write_text(text)
    return parse(folder, {"PATH": "/bin"})


def test_instructions_set_what_follows(tmp_path: Path) -> None:
    found = recipe(
        tmp_path,
        """# syntax=docker/dockerfile:1
FROM python:3.11-slim
LABEL a=b
ENV A=1 B="two words" PATH=/x:$PATH
WORKDIR /app
ENV C ${A}-${NONE:-none}
WORKDIR sub
RUN echo $A \\
    && echo more
USER root
CMD ["sleep"]
""",
    )
    assert found.workdir == "/app/sub"
    assert found.env == {"A": "1", "B": "two words", "PATH": "/x:/bin", "C": "1-none"}
    assert found.user == "root"
    run = found.steps[-1]
    assert (run.kind, run.workdir, run.env) == ("RUN", "/app/sub", found.env)
    assert run.command.startswith("exec /bin/sh -c ")


@pytest.mark.parametrize(
    "line",
    [
        "ADD a b",
        "ARG X=1",
        "ENTRYPOINT x",
        "VOLUME /x",
        "HEALTHCHECK CMD true",
        'SHELL ["/bin/bash"]',
        "ONBUILD RUN x",
        "STOPSIGNAL 9",
        "RUN --mount=type=cache,target=/x true",
        "COPY --from=other a b",
    ],
)
def test_everything_else_is_refused_by_name_and_line(tmp_path: Path, line: str) -> None:
    with pytest.raises(Unsupported) as refused:
        recipe(tmp_path, f"FROM x\nRUN true\n{line}\n")
    assert line.split()[0] in refused.value.message
    assert "line 3" in refused.value.message


@pytest.mark.parametrize("text", ["FROM a AS build\nFROM b\n", "FROM a\nFROM b\n"])
def test_stages_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(Unsupported, match="stages"):
        recipe(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        "RUN true\n",
        "FROM x\nEXPAND x\n",
        "FROM x\nAPPEND x\n",
        "FROM x\nCOPY a\n",
        "FROM x\nCOPY ../a b\n",
        'FROM x\nRUN ["a"\n',
        'FROM x\nENV A="b\n',
    ],
)
def test_what_is_written_wrongly_is_a_config_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        recipe(tmp_path, text)


@pytest.mark.parametrize(
    "line", ["COPY a /usr/local/bin/a", "COPY a /usr/b/../lib/", "WORKDIR /usr/nothing/here", "WORKDIR /usr\nCOPY a b"]
)
def test_where_nothing_can_be_written_is_refused_by_line(tmp_path: Path, line: str) -> None:
    found = recipe(tmp_path, f"FROM x\nRUN true\n{line}\n")
    with pytest.raises(
        Unsupported, match=rf"this machine's /usr, read-only: .* \(Dockerfile line {3 + line.count(chr(10))}\)"
    ):
        only_writable(found, read_only)
    only_writable(recipe(tmp_path, "FROM x\nWORKDIR /usr\nCOPY a /usrlocal/a\nCOPY a /opt/\n"), read_only)


def test_system_links_lead_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "bin").symlink_to("usr/bin")
    assert read_only("/bin/sh", tmp_path) == "/usr/bin"
    assert read_only("/sbin/x", tmp_path) is None
    assert read_only("/opt/usr", tmp_path) is None


def test_a_dockerfile_that_is_no_text_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_bytes(b"FROM x\xff\n")
    with pytest.raises(ConfigError):
        parse(tmp_path, {})


def test_only_root_where_there_is_one_user(tmp_path: Path) -> None:
    only_root(recipe(tmp_path, "FROM x\nUSER 0:0\n"), "root")
    with pytest.raises(Unsupported, match="nobody"):
        only_root(recipe(tmp_path, "FROM x\nUSER nobody\n"), None)
    with pytest.raises(Unsupported, match="app"):
        only_root(recipe(tmp_path, "FROM x\n"), "app")


def context(folder: Path) -> Path:
    (folder / "app/deep").mkdir(parents=True)
    (folder / "app/deep/a.txt").write_text("a")
    (folder / "one.txt").write_text("1")
    (folder / "two.txt").write_text("2")
    return folder


@pytest.mark.parametrize(
    ("copy", "directories", "placed"),
    [
        ("app/ /x/", (), {"/x/": ["deep", "deep/a.txt"]}),
        ("app /x", (), {"/x": ["deep", "deep/a.txt"]}),
        ("one.txt /x/y", (), {"/x": ["y"]}),
        ("one.txt /x/y", ("/x/y",), {"/x/y": ["one.txt"]}),
        ("one.txt /x/y/", (), {"/x/y/": ["one.txt"]}),
        ("*.txt /x/", (), {"/x/": ["one.txt", "two.txt"]}),
        ("one.txt two.txt rel/", (), {"/w/rel/": ["one.txt", "two.txt"]}),
        ('["one.txt", "/x/"]', (), {"/x/": ["one.txt"]}),
    ],
)
def test_copy(tmp_path: Path, copy: str, directories: tuple[str, ...], placed: dict[str, list[str]]) -> None:
    folder = context(tmp_path)
    step = recipe(folder, f"FROM x\nWORKDIR /w\nCOPY {copy}\n").steps[-1]
    found: dict[str, list[str]] = {}
    for target, items in copied(folder, step, lambda path: path in directories):
        found.setdefault(target, []).extend(item.path for item in items)
    assert found == placed


def test_copy_everything(tmp_path: Path) -> None:
    step = recipe(context(tmp_path), "FROM x\nCOPY . /x\n").steps[-1]
    [(target, items)] = copied(tmp_path, step, lambda _: False)
    assert target == "/x"
    assert [item.path for item in items] == ["Dockerfile", "app", "app/deep", "app/deep/a.txt", "one.txt", "two.txt"]


def test_copy_of_what_is_not_there(tmp_path: Path) -> None:
    step = recipe(tmp_path, "FROM x\nCOPY gone /x\n").steps[-1]
    with pytest.raises(ConfigError, match="gone"):
        list(copied(tmp_path, step, lambda _: False))


def test_dockerignore_is_honoured(tmp_path: Path) -> None:
    context(tmp_path)
    (tmp_path / ".dockerignore").write_text("# comment\n*.txt\n!two.txt\n")
    assert [item.path for item in context_entries(tmp_path)] == [
        ".dockerignore",
        "app",
        "app/deep",
        "app/deep/a.txt",
        "two.txt",
    ]


def test_a_tree_has_fixed_modes_and_order(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("b")
    (tmp_path / "a").write_text("a")
    (tmp_path / "a").chmod(0o4711)
    (tmp_path / "b").chmod(0o600)
    assert [(item.path, item.mode) for item in entries(tmp_path)] == [("a", 0o755), ("b", 0o644)]
