"""task.yaml: what is asked, how long it may take, which parser reads the tests' output."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from harnesstrain.taskset.terminalbench.parsers import ParserName
from harnesstrain.taskset.terminalbench.yamlfile import YamlDocument, validate

Seconds = Annotated[float, Field(gt=0, le=30 * 86_400)]
Minutes = Annotated[float, Field(ge=0)]


class TaskYaml(BaseModel):
    """The whole file.  Keys that the format does not know are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)

    instruction: Annotated[str, Field(min_length=1)]
    difficulty: Literal["easy", "medium", "hard", "unknown"]
    author_name: str | None = "unknown"
    author_email: str | None = "unknown"
    category: str | None = "software_engineering"
    tags: list[str] | None = None
    parser_name: ParserName = "pytest"
    max_agent_timeout_sec: Seconds = 360.0
    max_test_timeout_sec: Seconds = 60.0
    run_tests_in_same_shell: bool = False
    disable_asciinema: bool = False
    estimated_duration_sec: Minutes | None = None
    expert_time_estimate_min: Minutes | None = None
    junior_time_estimate_min: Minutes | None = None


def read_task(document: YamlDocument) -> TaskYaml:
    """The file's values.  Raises ConfigError with file, line and key."""
    found = validate(document, TaskYaml)
    if not found.instruction.strip():
        document.wrong("the instruction is empty", ("instruction",), "write what the task asks for")
    return found
