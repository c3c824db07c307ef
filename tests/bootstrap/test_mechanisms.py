"""What each shipped patch does, shown with scripted replies: first without it, then with it."""

from __future__ import annotations

import json
from pathlib import Path

from tests.bootstrap.conftest import Make
from tests.bootstrap.episode import play

SUBMIT = json.dumps({"tool": "submit"})


def run(command: str) -> str:
    return json.dumps({"tool": "run", "command": command})


def fenced(text: str, mark: str = "json") -> str:
    return f"```{mark}\n{text}\n```"


def test_tolerate_code_fence(make: Make, workdir: Path) -> None:
    replies = [fenced(run("touch a.txt")), fenced(SUBMIT, "")] + [SUBMIT]
    assert play(make(), workdir, replies).commands == []
    played = play(make("tolerate-code-fence"), workdir, replies)
    assert (played.ended, played.commands, played.valid) == ("submitted", ["touch a.txt"], [True, True])


def test_first_line_only(make: Make, workdir: Path) -> None:
    replies = [fenced(run("touch a.txt")), fenced(SUBMIT)] + ["no"] * 2
    assert play(make("tolerate-code-fence"), workdir, replies).ended == "submitted"
    assert play(make("tolerate-code-fence", "first-line-only"), workdir, replies).ended == "gave_up"


def test_shell_blocks(make: Make, workdir: Path) -> None:
    program = 'python3 - <<\'END\'\nprint("one \\"two\\"")\nEND'
    replies = [fenced(program, "sh"), run("echo json too"), "submit"]
    assert play(make(), workdir, replies + ["no"] * 2).valid[0] is False
    played = play(make("shell-blocks"), workdir, replies)
    assert (played.ended, played.commands) == ("submitted", [program, "echo json too"])
    assert played.told(1) == 'exit code: 0\none "two"'
    roles = [message["role"] for message in played.requests[0]]
    assert roles[0] == "system"
    assert roles[1:] == ["user", "assistant"] * (len(roles) // 2 - 1) + ["user"]


def test_shell_blocks_submits_on_a_block(make: Make, workdir: Path) -> None:
    assert play(make("shell-blocks"), workdir, [fenced("submit", "sh")]).ended == "submitted"


def test_rename_a_variable_changes_nothing(make: Make, workdir: Path) -> None:
    replies = [run("echo a; exit 3"), "no action", fenced(run("ls")), run("ls"), SUBMIT]
    before, after = play(make(), workdir, replies), play(make("rename-a-variable"), workdir, replies)
    assert before == after
    assert before.ended == "submitted"


def test_example_of_a_repair(make: Make, workdir: Path) -> None:
    before = play(make("shell-blocks"), workdir, ["submit"]).requests[0]
    after = play(make("shell-blocks", "example-of-a-repair"), workdir, ["submit"]).requests[0]
    assert after[: len(before) - 1] == before[:-1]
    assert after[-1] == before[-1]
    assert len(after) > len(before)


def test_rules_of_thumb(make: Make, workdir: Path) -> None:
    before = play(make(), workdir, [SUBMIT]).requests[0]
    after = play(make("rules-of-thumb"), workdir, [SUBMIT]).requests[0]
    assert after[0]["content"].startswith(before[0]["content"])
    assert after[1:] == before[1:]


def test_handbook_is_long(make: Make, workdir: Path) -> None:
    def size(harness: Path) -> int:
        return sum(len(message["content"]) for message in play(harness, workdir, [SUBMIT]).requests[0])

    assert size(make("handbook")) > size(make()) + 2000


def test_show_the_files(make: Make, workdir: Path) -> None:
    (workdir / "short.py").write_text("if True:\n    print(1)\n")
    (workdir / "long.txt").write_text("".join(f"line {n} of a long file\n" for n in range(200)))
    (workdir / "data.bin").write_bytes(bytes(range(256)))
    (workdir / "with space.txt").write_text("spaced\n")
    told = play(make("show-the-files"), workdir, [SUBMIT]).told(0)
    assert "==> ./short.py <==\nif True:\n    print(1)\n" in told
    assert "line 0 of" in told
    assert "line 199" not in told
    assert "==> ./data.bin <==\n==> ./long.txt <==" in told
    assert "spaced" in told
    assert len(told) < 2500


def test_show_the_files_of_an_empty_directory(make: Make, workdir: Path) -> None:
    assert play(make("show-the-files"), workdir, [SUBMIT]).told(0) == play(make(), workdir, [SUBMIT]).told(0)


def test_show_what_changed(make: Make, workdir: Path) -> None:
    (workdir / "old.txt").write_text("old\n")
    replies = [run("echo new > 'a b.txt'"), run("echo more >> old.txt"), run("cat old.txt"), SUBMIT]
    played = play(make("show-what-changed"), workdir, replies)
    assert played.told(1) == "exit code: 0\n./a b.txt now contains:\nnew"
    assert played.told(2) == "exit code: 0\n./old.txt now contains:\nold\nmore"
    assert played.told(3) == "exit code: 0\nold\nmore"


def test_show_what_changed_survives_a_file_that_cannot_be_shown(make: Make, workdir: Path) -> None:
    played = play(make("show-what-changed"), workdir, [run("printf 'a\\0b' > a.bin"), SUBMIT])
    assert played.told(1) == "exit code: 0\n./a.bin now contains:\n(binary)"


def test_break_loops(make: Make, workdir: Path) -> None:
    replies = [run("date"), run("date"), run("ls"), run("date"), SUBMIT]
    assert play(make(), workdir, replies).commands == ["date", "date", "ls", "date"]
    played = play(make("break-loops"), workdir, replies)
    assert played.commands == ["date", "ls", "date"]
    assert "same command" in played.told(2)
    assert played.ended == "submitted"


def test_name_the_problem(make: Make, workdir: Path) -> None:
    replies = ['{"tool": "fly"}', SUBMIT]
    assert "fly" not in play(make(), workdir, replies).told(1)
    assert "fly" in play(make("name-the-problem"), workdir, replies).told(1)


def test_check_before_submit(make: Make, workdir: Path) -> None:
    played = play(make("check-before-submit"), workdir, [SUBMIT, run("ls"), SUBMIT, SUBMIT], instruction="Count it.")
    assert "Count it." in played.told(1)
    assert (played.ended, len(played.requests)) == ("submitted", 3)


def test_stop_at_an_error(make: Make, workdir: Path) -> None:
    replies = [run("false; echo after"), SUBMIT]
    assert play(make(), workdir, replies).told(1) == "exit code: 0\nafter"
    assert play(make("stop-at-an-error"), workdir, replies).told(1) == "exit code: 1"


def test_no_submit_after_failure(make: Make, workdir: Path) -> None:
    played = play(make("no-submit-after-failure"), workdir, [run("exit 2"), SUBMIT, run("true"), SUBMIT])
    assert "last command failed" in played.told(2)
    assert played.ended == "submitted"
    stubborn = play(make("no-submit-after-failure", "break-loops"), workdir, [run("exit 2"), SUBMIT, SUBMIT, SUBMIT])
    assert (stubborn.ended, len(stubborn.requests)) == ("submitted", 4)


def test_keep_the_end(make: Make, workdir: Path) -> None:
    replies = [run("seq 1 5000"), run("echo short"), SUBMIT]
    assert "\n5000" not in play(make(), workdir, replies).told(1)
    played = play(make("keep-the-end"), workdir, replies)
    assert played.told(1).endswith("\n5000")
    assert "\n1\n" in played.told(1)
    assert played.told(2) == "exit code: 0\nshort"
