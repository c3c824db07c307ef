# The agent's protocol in POSIX shell, for images without Python.  Needs cat, dd, head, kill, mkfifo, rm, sleep, tail, wc.
# Weaker than the Python agent: no address space pin, no fixed pids, guards itself less, slower.
# One request at a time, read from stdin; the end of stdin ends everything.
set -f
umask 022
work=/tmp/.agent.$$
rm -rf "$work" && mkdir -m 700 "$work" || exit 1
shell=/bin/sh
[ -x /bin/bash ] && shell=/bin/bash
me=$$
exec 8>&1 9<&0 </dev/null >/dev/null 2>&1
trap '' TERM INT HUP PIPE

take() { # COUNT FILE: exactly COUNT bytes of the request
  if [ "$1" -gt 0 ]; then
    whole=$(($1 / 65536)) rest=$(($1 % 65536))
    : >"$2"
    [ "$whole" -gt 0 ] && dd bs=65536 count="$whole" iflag=fullblock <&9 >>"$2" 2>/dev/null
    [ "$rest" -gt 0 ] && dd bs="$rest" count=1 iflag=fullblock <&9 >>"$2" 2>/dev/null
  else
    : >"$2"
  fi
  [ "$(wc -c <"$2")" -eq "$1" ] || leave
}
text() { # COUNT: as a word
  take "$1" "$work/word"
  word=$(cat "$work/word"; echo .)
  word=${word%.}
}
size() { wc -c <"$1" | tr -d ' '; }
ok() { printf 'OK %s\n' "$(size "$1")" >&8; cat "$1" >&8; }
nothing() { printf 'OK 0\n' >&8; }
bad() { printf 'ERR %s %s\n%s' "$1" "${#2}" "$2" >&8; }
leave() { [ "$me" = 1 ] || kill_all ''; rm -rf "$work"; exit 0; }

others() { # every other process, but kernel threads and what this listing needs
  set +f
  found=''
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/}
    [ "$pid" = "$me" ] || [ "$pid" = 1 ] || [ "$pid" = "$watch" ] && continue
    read -r line 2>/dev/null <"$entry/stat" || continue
    line=${line##*) }
    case $line in Z* | X*) continue ;; esac
    found="$found $pid"
  done
  set -f
}
kill_all() { # SPARED: every process that is not among these ids
  tries=0
  while [ $tries -lt 50 ]; do
    others
    doomed=''
    for pid in $found; do
      case " $1 " in *" $pid "*) ;; *) doomed="$doomed $pid" ;; esac
    done
    [ -n "$doomed" ] || return 0
    kill -9 $doomed 2>/dev/null
    tries=$((tries + 1))
  done
}
bounded() { # FILE CAP: keeps head and tail in FILE.kept
  total=$(size "$1") half=$(($2 / 2))
  if [ "$total" -gt $((half * 2)) ]; then
    truncated=1
    { head -c "$half" "$1"; printf '\n[... %s bytes dropped ...]\n' $((total - half * 2)); tail -c "$half" "$1"; } >"$1.kept"
  else
    cat "$1" >"$1.kept"
  fi
}
