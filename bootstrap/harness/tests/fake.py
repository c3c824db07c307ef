"""An episode without a driver: replies come from a list, commands run in a local directory."""

import subprocess
from pathlib import Path

from ht_sdk import Budgets, EpisodeOver, FileFault, Reply, RunResult, Task


class FakeEpisode:
    """Answers `complete` from `replies`, then says that the step budget is spent."""

    def __init__(self, directory, replies=(), instruction="Do it."):
        self.task = Task(instruction, str(directory), "fake", 4096, Budgets(steps=len(replies)))
        self.replies = list(replies)
        self.requests = []
        self.commands = []
        self.notes = []
        self.submitted = False

    def complete(self, messages, tools=None, tool_choice=None, **sampling):
        if not self.replies:
            raise EpisodeOver("step_limit")
        self.requests.append([dict(message) for message in messages])
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return Reply(reply)

    def count_tokens(self, messages_or_text):
        if isinstance(messages_or_text, str):
            return len(messages_or_text) // 3 + 1
        return sum(self.count_tokens(message["content"]) + 4 for message in messages_or_text)

    def run(self, command, cwd=None, timeout=None, stdin=None):
        self.commands.append(command)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=cwd or self.task.workdir,
            input=stdin.encode() if isinstance(stdin, str) else stdin or b"",
            capture_output=True,
            timeout=30,
        )
        return RunResult(done.returncode, done.stdout, done.stderr)

    def read(self, path):
        try:
            return Path(self.task.workdir, path).read_bytes()
        except OSError as error:
            raise FileFault(str(error), "file_fault", {"errno": "ENOENT", "path": path}) from error

    def read_text(self, path):
        return self.read(path).decode("utf-8", "replace")

    def write(self, path, data, mode=0o644):
        target = Path(self.task.workdir, path)
        target.write_bytes(data.encode() if isinstance(data, str) else data)
        target.chmod(mode)

    def note(self, **data):
        self.notes.append(data)

    def submit(self, message=None):
        self.submitted = True
