"""The harness room: the program being trained, as files in git and as a process in a jail.

Read this to learn what a harness repo is, how a harness is started and spoken to, and how a candidate is captured,
guarded and promoted.  May import: core; the one room that imports gitpython.

manifest.py     harness.toml, validated
globs.py        the globs of surface and visible
wire.py         one JSON object per line; bytes; typed error answers
protocol.py     every method's params and results
process.py      a running harness: send, receive, finish
pipes.py        its pipes: bounded lines, bounded log, no deadlock
jail.py         what a harness can see and use
environment.py  the interpreter and the virtual environment of a harness
trial.py        the manifest's check command, in the jail
check.py        conformance: what a harness violates, listed
scenarios.py    the scripted models and environments it is confronted with
git.py          git, called safely: no hooks, no filters, no user configuration
fetching.py     one commit of somebody else's repository, as files
repo.py         the harness repo: revisions, versions, dirty, refs
memory.py       what was asked of commits before
worktrees.py    exported versions under unique names, swept after a crash
capture.py      a worktree's whole delta as one child commit
surface.py      what a candidate may change
tracing.py      what to watch while a candidate runs: the statements and files that it changed
promotion.py    compare-and-swap of the branch
checkout.py     the user's checked-out files: uncommitted changes, following the branch
patching.py     applying patch files to a worktree
template.py     a new harness repo
"""
