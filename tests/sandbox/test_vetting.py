"""What no engine takes: lines of a Dockerfile that are no instructions, names that no image can have."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnesstrain.core.errors import ConfigError
from harnesstrain.sandbox.vetting import check_image, read


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("FROM x\nHELLO world\n", "line 2: HELLO is no instruction"),
        ("FROM x\nRUN a \\\n  # b\n\n  && c\n\nbad\n", "line 7: BAD is no"),
        ("FROM x\nRUN <<EOF cat\nhello\nEOF\nEOF\n", "line 5: EOF is no"),
        ("FROM x\nRUN a\n&& b\n", "line 3: && is no"),
        ("FROM x\nCOPY --chmod=755 a ../b c\n", "line 2: COPY ../b leaves the build context"),
        ('FROM x\n\nadd ["a/../../b", "/c"]\n', "line 3: ADD a/../../b leaves"),
        ("FROM x\nCOPY a \\\n.. c\n", "line 2: COPY .. leaves"),
        ("# only\nRUN a\n", "has no FROM"),
        ("", "has no FROM"),
    ],
)
def test_a_dockerfile_that_no_engine_builds(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "Dockerfile").write_text(text)
    with pytest.raises(ConfigError, match=said) as caught:
        read(tmp_path / "Dockerfile")
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "# syntax=docker/dockerfile:1\nARG V=1\nfrom x:$V as a\nFROM a\nONBUILD RUN x\nHEALTHCHECK NONE\n",
        "\ufeffFROM x\nRUN a \\ \n\n # comment \\\n b\n  copy a b\n",
        "FROM x\nRUN <<EOF\nhello \\\nEOF\nRUN true\n",
        "FROM x\nRUN <<-'E1' sh && cat <<\"E2\"\n\thello\n\tE1\nit is\nE2\nCMD x\n",
        "FROM x\nCOPY <<a <<b /x/\n1\na\n2\nb\nCMD x\n",
        "FROM x\nRUN cat <<< $((1<<3))\nRUN true\n",
        "# escape=`\nFROM x\nRUN a `\n b\nCOPY a c:\\\nCMD x\n",
        "FROM x as a\nCOPY --from=a ../b /c\nCOPY a/../b ..c ../d\nADD https://h/../x /y\nCOPY [1\n",
        "FROM x\r\nRUN a \\\r\n b\r\n",
    ],
)
def test_a_dockerfile_that_an_engine_builds(tmp_path: Path, text: str) -> None:
    (tmp_path / "Dockerfile").write_text(text, encoding="utf-8", newline="")
    assert "FROM" in read(tmp_path / "Dockerfile").upper()


@pytest.mark.parametrize(
    "name",
    [
        "python",
        "python:3.11-slim",
        "ghcr.io/a/b__c/d-e.f:V1_x",
        "localhost:5000/a",
        "[::1]:5000/a/b",
        "REGISTRY.example/a",
        "a@sha256:" + "0" * 64,
        "a:1@sha256:" + "0" * 64,
        "sha256:" + "0" * 64,
        "docker.io/swebench/sweb.eval.x86_64.django_1776_django-11039:latest",
    ],
)
def test_names_that_images_have(name: str) -> None:
    check_image(name)


@pytest.mark.parametrize(
    "name",
    [
        "../../etc:latest; rm -rf x",
        "",
        "a b",
        "A",
        "/a",
        "a/",
        "a//b",
        "a:",
        "a:b:c",
        "a@sha256:1",
        "a;b",
        "a\n",
        "é",
        "a" * 256,
    ],
)
def test_names_that_no_image_has(name: str) -> None:
    with pytest.raises(ConfigError, match="no name of an image"):
        check_image(name)
