r"""Signs that a verifier's own infrastructure failed, as data, in order: the first that holds is the reason.

A sign is one line of what the verifier printed.  It counts only outside of test runs (`frames.py` tells where those
are): code under test may print any text.  To add one, give it examples of both kinds; the tests run them.
"""

from __future__ import annotations

from dataclasses import dataclass

SETUP, OUTSIDE = "setup", "outside"


@dataclass(frozen=True, slots=True)
class Rule:
    """One sign."""

    name: str
    """What the user sees as the reason: one word."""
    pattern: str
    """Regular expression, searched in a single line."""
    where: str
    """`setup`: counts while no test ran.  `outside`: also after test runs in which everything passed."""
    reason: str
    matches: tuple[str, ...]
    ignores: tuple[str, ...]
    """Lines it must leave alone: they speak of the submitted state, or of nothing that went wrong."""


_SHELL = r"^(?:\S+: (?:line )?\d+: |(?:ba|da)?sh: )?"
_TOOLS = r"(?:uvx?|pytest|pip3?|python3?|curl|wget|apt-get|apt)"
_HERE = r"(?!.*(?:localhost|127\.0\.0\.1|0\.0\.0\.0|::1))"
"""A server of the task itself that does not answer is the submission's."""

RULES: tuple[Rule, ...] = (
    Rule(
        name="no_network",
        pattern=(
            rf"^{_HERE}(?:.*(?:Could not resolve host|Temporary failure (?:in name resolution|resolving '\S+)"
            r"|unable to resolve host address|dns error: failed to lookup address"
            r"|Failed to establish a new connection|error sending request for url"
            r"|(?:Could not|Cannot|Unable to) connect to \S+:(?:80|443)\b)"
            r"|curl: \((?:5|6|7|28|52|55|56)\)"
            r"|(?:wget|curl|fatal|error|  Caused by|Caused by): .*(?:Network is unreachable|No route to host"
            r"|Connection timed out|Connection reset by peer|Connection refused))"
        ),
        where=OUTSIDE,
        reason="what the verifier installs or asks cannot be reached",
        matches=(
            "curl: (6) Could not resolve host: astral.sh",
            "curl: (7) Failed to connect to astral.sh port 443 after 21 ms: Couldn't connect to server",
            "curl: (28) Connection timed out after 300000 milliseconds",
            "  Temporary failure resolving 'deb.debian.org'",
            "wget: unable to resolve host address 'astral.sh'",
            "  Caused by: dns error: failed to lookup address information: Temporary failure in name resolution",
            "  Caused by: error sending request for url (https://pypi.org/simple/pytest/)",
            "Cannot connect to deb.debian.org:80 (151.101.2.132), connection timed out",
            "fatal: unable to access 'https://example.org/x.git/': Could not resolve host: example.org",
        ),
        ignores=(
            "curl: (7) Failed to connect to localhost port 8080 after 0 ms: Connection refused",
            "curl: (22) The requested URL returned error: 404",
            "ConnectionRefusedError: [Errno 111] Connection refused",
            "Connection to 127.0.0.1 port 22 [tcp/ssh] succeeded!",
        ),
    ),
    Rule(
        name="tls_failed",
        pattern=(
            rf"^{_HERE}(?:curl: \((?:35|53|60|77|83)\)|.*invalid peer certificate: |.*SSL: CERTIFICATE_VERIFY_FAILED"
            r"|(?:fatal|ERROR|wget): .*certificate (?:verify|verification) failed"
            r"|ERROR: cannot verify \S+ certificate|.*Certificate verification failed: )"
        ),
        where=OUTSIDE,
        reason="a server is not trusted, or something stands in between",
        matches=(
            "curl: (60) SSL certificate problem: unable to get local issuer certificate",
            "  Caused by: invalid peer certificate: UnknownIssuer",
            "ERROR: cannot verify astral.sh's certificate, issued by 'CN=proxy':",
        ),
        ignores=("subject=CN = localhost", "Certificate verification failed for https://localhost:8443"),
    ),
    Rule(
        name="package_index",
        pattern=(
            r"^(?:E: (?:Failed to fetch|Unable to fetch|Unable to locate package|Some index files failed"
            r"|The repository|Package '\S+' has no installation candidate|Could not get lock|Unable to acquire)"
            r"|ERROR: (?:Could not find a version that satisfies|No matching distribution found for"
            r"|Could not install packages due to an OSError)"
            r"|error: Request failed after \d+ retries|.*\bwas not found in the (?:cache|package registry)\b"
            r"|(?:error: |\s*Caused by: |\s*[×x] )Failed to (?:fetch|download)\b"
            r"|.*HTTP status (?:client|server) error \((?:429|5\d\d)"
            r"|curl: \(22\) The requested URL returned error: (?:403|407|429|5\d\d)"
            r"|npm (?:ERR!|error) (?:network|code (?:ENOTFOUND|EAI_AGAIN|ETIMEDOUT|ECONNREFUSED|ECONNRESET)))"
        ),
        where=OUTSIDE,
        reason="an index or a mirror does not give what the verifier installs",
        matches=(
            "E: Unable to locate package curl",
            "E: Failed to fetch http://deb.debian.org/debian/pool/main/c/curl/curl_8.deb  404  Not Found",
            "E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?",
            "ERROR: No matching distribution found for pytest==8.4.1",
            "error: Request failed after 3 retries",
            "  × Failed to download `pytest==8.4.1`",
            "  ╰─▶ Because pytest was not found in the package registry and you require pytest==8.4.1, we can",
            "curl: (22) The requested URL returned error: 503",
            "npm ERR! code EAI_AGAIN",
        ),
        ignores=(
            "W: Some index files failed to download. They have been ignored, or old ones used instead.",
            "curl is already the newest version (8.14.1-2+deb13u7).",
            "curl: (22) The requested URL returned error: 404",
            "Downloading pygments (1.2MiB)",
        ),
    ),
    Rule(
        name="tool_missing",
        pattern=rf"{_SHELL}{_TOOLS}: (?:command )?not found$|^env: .?{_TOOLS}.?: No such file or directory$",
        where=OUTSIDE,
        reason="what the verifier runs its tests with is not there",
        matches=(
            "/tests/test.sh: line 14: uvx: command not found",
            "uvx: command not found",
            "/tests/test.sh: 14: uvx: not found",
            "bash: pytest: command not found",
            "env: 'python3': No such file or directory",
        ),
        ignores=("/app/run.sh: line 3: solver: command not found", "FAILED test_x - uvx: command not found in PATH"),
    ),
    Rule(
        name="runner_missing",
        pattern=r"^(?:\S*python\S*: )?(?:ModuleNotFoundError: )?No module named '?(?:pytest|_pytest|pip|uv)'?$",
        where=OUTSIDE,
        reason="what the verifier runs its tests with is not there",
        matches=("/usr/bin/python3: No module named pytest", "ModuleNotFoundError: No module named 'pytest'"),
        ignores=("ModuleNotFoundError: No module named 'solution'", "No module named 'pytest_mine'"),
    ),
    Rule(
        name="runner_crashed",
        pattern=(
            r"^(?:ERROR: usage: |(?:pytest|__main__\.py): error: |(?:\S+: )?error: unrecognized arguments: "
            r"|Fatal Python error: init|ImportError: Error importing plugin )"
        ),
        where=SETUP,
        reason="what the verifier runs its tests with ended before it looked at any test",
        matches=(
            "ERROR: usage: __main__.py [options] [file_or_dir] [file_or_dir] [...]",
            "__main__.py: error: unrecognized arguments: --ctrf",
            "Fatal Python error: init_fs_encoding: failed to get the Python codec of the filesystem encoding",
        ),
        ignores=("ERROR: test_x failed", "Fatal Python error: Segmentation fault"),
    ),
    Rule(
        name="verifier_broken",
        pattern=(
            r"^(?:ba|da)?sh: (?:\d+: )?/tests/\S+: (?:No such file or directory|Permission denied)$"
            r"|^(?:\S+: )?/tests/\S+: .*(?:bad interpreter|cannot execute|\$'\\r': command not found)"
            r"|^ERROR: file or directory not found: /tests/|^Error: No working directory set"
        ),
        where=SETUP,
        reason="the task's own files cannot be run",
        matches=(
            "bash: /tests/run.sh: No such file or directory",
            "bash: /tests/run.sh: /bin/bash^M: bad interpreter: No such file or directory",
            "/tests/test.sh: line 2: $'\\r': command not found",
            "ERROR: file or directory not found: /tests/test_outputs.py",
            "Error: No working directory set. Please set a WORKDIR in your Dockerfile before running this script.",
        ),
        ignores=("bash: /app/run.sh: No such file or directory", "cat: /tests/x: No such file or directory"),
    ),
    Rule(
        name="disk_full",
        pattern=r"No space left on device|Disk quota exceeded|\(os error 28\)",
        where=OUTSIDE,
        reason="the disk is full",
        matches=("/tests/test.sh: line 20: echo: write error: No space left on device",),
        ignores=("20% space left on /",),
    ),
    Rule(
        name="out_of_memory",
        pattern=rf"Cannot allocate memory|{_SHELL}fork: (?:retry: )?Resource temporarily|^(?:fatal: )?[Oo]ut of memory",
        where=OUTSIDE,
        reason="the verifier had too little memory, or too few processes",
        matches=("/tests/test.sh: fork: Cannot allocate memory", "fatal: Out of memory, malloc failed"),
        ignores=("the program ran out of memory slots",),
    ),
    Rule(
        name="killed",
        pattern=r"^(?:\S+: line \d+: +)(?:\d+ )?Killed\b|^Killed$",
        where=OUTSIDE,
        reason="a process of the verifier was killed",
        matches=("/tests/test.sh: line 14:   123 Killed                  uvx -p 3.13 pytest", "Killed"),
        ignores=("Killed the old server", "test_killed PASSED", "/tests/test.sh: line 9:   77 Terminated   ./server"),
    ),
)

FACTS = {
    "killed": "the verifier was killed",
    "timed_out": "the verifier ran past its time",
    "no_reward": "the verifier wrote no reward",
    "malformed_reward": "the reward cannot be used",
}
"""Reasons that need no line: facts of the process and of its reward files."""

KILLED = (137, 143)
"""Exit codes of a verifier that was killed or told to stop from outside."""
