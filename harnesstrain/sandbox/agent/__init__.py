"""The agent: pid 1 of a sandbox, driven over one byte stream (its stdin and stdout).

These files run inside the sandbox (Python 3.7 or later, standard library only) and are sent there by `bundle.py`; the
driver never imports them.  `agent.sh` speaks the same protocol where there is no Python.  A request is one line of
words, then the bytes whose lengths it names.  One request at a time; the end of the stream ends everything.

  HELLO pid_base floor_mb                -> HELLO version aslr_off shell
  RUN ms cap cwd user env stdin command  -> END code timed_out truncated held_open left us stdout stderr, then both
  READ limit user path                   -> OK n, then the bytes         | ERR errno n, then a message
  WRITE mode user path data              -> OK 0                         | ERR …
  STAT path                              -> OK n, then "kind mode size"  | ERR …
  PUT replace path, then entries         -> OK 0                         | ERR …
  GET limit path                         -> entries, then "."            | ERR …, also after some entries
  KILL                                   -> OK n, then how many processes stay
  OTHERS                                 -> OK n, then how many processes live besides the agent
  SETTLED                                -> OK n, then "processes last_pid shared_memory"; the Python agent only
  OWN path                               -> OK 0; the directory is removed when the agent ends

Entries of PUT, each a line and its bytes: `D mode path`, `F mode path data`, `L path target`; a line `.` ends them.
Entries of GET: `D path`, `F mode path data`, `L path target`, `S path` for what cannot be had, which takes back a file
of that path.  The root's path is empty; parents come first.

stream.py     the stream, bounded outputs, faults
processes.py  what runs: counting, killing, collecting; accounts
command.py    one command: its process, its streams, its end
files.py      reading, writing, putting trees without being led astray by links
sending.py    getting trees
serve.py      the requests
"""
