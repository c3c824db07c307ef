# The agent's protocol in POSIX shell, for images without Python 3.8.  Needs cat, chmod, dd, head, ln, mkdir, mkfifo,
# readlink, rm, sleep, tail, tee, tr, wc.  Weaker than the Python agent: no address space pin, no fixed pids, less guarded, slower.
set -f
umask 022
me=$$
work=/tmp/.agent.$me
owned=
rm -rf "$work" && mkdir -m 700 "$work" || exit 1
shell=/bin/sh
[ -x /bin/bash ] && shell=/bin/bash
exec 8>&1 9<&0 </dev/null >/dev/null 2>&1
trap '' TERM INT HUP PIPE

size() { wc -c <"$1" | tr -d ' '; }
take() { # COUNT FILE: exactly COUNT bytes of the request
  : >"$2"
  [ $(($1 / 65536)) -gt 0 ] && dd bs=65536 count=$(($1 / 65536)) iflag=fullblock <&9 >>"$2"
  [ $(($1 % 65536)) -gt 0 ] && dd bs=$(($1 % 65536)) count=1 iflag=fullblock <&9 >>"$2"
  [ "$(size "$2")" -eq "$1" ] || leave
}
word() { # COUNT: as a variable; a trailing newline stays
  take "$1" "$work/word"
  word=$(cat "$work/word"; echo .)
  word=${word%.}
}
ok() { printf 'OK %s\n' "$(size "$1")" >&8; cat "$1" >&8; }
done_() { printf 'OK 0\n' >&8; }
bad() { printf 'ERR %s %s\n%s' "$1" "${#2}" "$2" >&8; }
leave() {
  [ "$me" = 1 ] || kill_all ""
  rm -rf "$work" ${owned:+"$owned"}
  exit 0
}

# --- processes ---

helpers= # subshells of the agent: they and what they start are not the command's
others() { # every other living process of the sandbox, in $found
  set +f
  found= table= own=" $helpers "
  read -r self _ </proc/self/stat
  for entry in /proc/[0-9]*; do
    pid=${entry#/proc/}
    case " 1 $me $self " in *" $pid "*) continue ;; esac
    read -r line <"$entry/stat" || continue
    line=${line##*) }
    parent=${line#* } parent=${parent%% *}
    case $line in Z* | X*) # a main thread may end before the others
      set -- $line
      [ "${18}" -gt 1 ] || continue
    esac
    table="$table $pid:$parent"
  done
  set -f
  grown=1
  while [ $grown = 1 ]; do
    grown=0
    for entry in $table; do
      case $own in
        *" ${entry%:*} "*) ;;
        *" ${entry#*:} "*) own="$own${entry%:*} " grown=1 ;;
      esac
    done
  done
  for entry in $table; do
    case $own in *" ${entry%:*} "*) ;; *) found="$found ${entry%:*}" ;; esac
  done
}
without() { # SPARED: $found without those
  rest=
  for pid in $found; do
    case " $1 " in *" $pid "*) ;; *) rest="$rest $pid" ;; esac
  done
  found=$rest
}
kill_all() { # SPARED: every process but those
  tries=0
  while [ $tries -lt 100 ]; do
    others
    without "$1"
    [ -n "$found" ] || return 0
    kill -9 $found
    tries=$((tries + 1))
  done
}
count() { # WORDS: how many
  set -- $1
  counted=$#
}

# --- a command ---

collect() { # BASE CAP: from BASE.pipe to head, tail and count; the writer is never blocked
  {
    wc -c <"$1.more" >"$1.count" &
    { dd bs=65536 count=64 of="$1.head"; cat; } <"$1.pipe" | tee "$1.more" | tail -c "$2" >"$1.tail"
    wait
    : >"$1.end"
  } &
  helpers="$helpers $!"
}
kept() { # BASE CAP: head and tail in BASE.kept
  touch "$1.head" "$1.tail" "$1.count"
  cat "$1.head" "$1.tail" >"$1.all"
  more=$(tr -d ' \n' <"$1.count")
  total=$(($(size "$1.head") + ${more:-0})) half=$(($2 / 2))
  if [ "$total" -gt $((half * 2)) ]; then
    truncated=1
    {
      head -c "$half" "$1.all"
      printf '\n[... %s bytes dropped ...]\n' $((total - half * 2))
      tail -c "$half" "$1.all"
    } >"$1.kept"
  else
    cat "$1.all" >"$1.kept"
  fi
}
commands=0
run() { # MS CAP N_CWD N_USER N_ENV N_STDIN N_COMMAND
  word "$3"; cwd=$word
  word "$4"; user=$word
  word "$5"
  commands=$((commands + 1)) base=$work/$commands ms=$1 cap=$2
  input=/dev/null
  [ "$6" -ge 0 ] && { take "$6" "$base.stdin"; input=$base.stdin; }
  word "$7"; command=$word
  mkfifo "$base.out.pipe" "$base.err.pipe" "$base.out.more" "$base.err.more"
  others; before=$found
  collect "$base.out" "$cap"
  collect "$base.err" "$cap"
  (
    exec 8>&- 9<&-
    trap - TERM INT HUP PIPE
    echo 900 >/proc/self/oom_score_adj
    exec <"$input" >"$base.out.pipe" 2>"$base.err.pipe"
    cd "$cwd" || exit 126
    case $user in
      '' | root | 0) exec "$shell" -c "$command" ;;
      *) exec su -s "$shell" "$user" -c "$command" ;;
    esac
  ) &
  child=$! watch=
  if [ "$ms" -gt 0 ]; then
    (
      seconds=$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))
      sleep "$seconds" || sleep $((ms / 1000 + 1))
      : >"$base.timed"
      read -r self _ </proc/self/stat
      helpers="$helpers $self"
      kill_all "$before"
    ) &
    watch=$!
    helpers="$helpers $watch"
  fi
  wait "$child"; code=$?
  took=$(($(now) - begun))
  timed=0 held=0 truncated=0 waited=0
  if [ -e "$base.timed" ]; then timed=1 code=124; wait "$watch"; elif [ -n "$watch" ]; then kill -9 "$watch"; fi
  while [ ! -e "$base.out.end" ] || [ ! -e "$base.err.end" ]; do
    [ $waited -ge 4 ] && { held=1; break; }
    sleep 0.05 || sleep 1
    waited=$((waited + 1))
  done
  kept "$base.out" "$cap"
  kept "$base.err" "$cap"
  others; count "$found"
  printf 'END %s %s %s %s %s %s %s %s\n' "$code" $timed $truncated $held "$counted" $took \
    "$(size "$base.out.kept")" "$(size "$base.err.kept")" >&8
  cat "$base.out.kept" "$base.err.kept" >&8
  [ $held = 0 ] && { set +f; rm -f "$base".*; set -f; }
  living=
  for pid in $helpers; do [ -d "/proc/$pid" ] && living="$living $pid"; done
  helpers=$living
}
now() { # microseconds, in steps of a hundredth of a second: the start of a new process
  line=$(cat /proc/self/stat)
  set -- ${line##*) }
  shift 19
  echo "${1}0000"
}

# --- files ---

read_() { # LIMIT N_USER N_PATH
  word "$2"; word "$3"
  if [ -d "$word" ]; then bad EISDIR "Is a directory"
  elif [ ! -e "$word" ]; then bad ENOENT "No such file or directory"
  elif [ ! -f "$word" ]; then bad EINVAL "not a regular file"
  elif [ ! -r "$word" ]; then bad EACCES "Permission denied"
  elif [ "$(size "$word")" -gt "$1" ]; then bad EFBIG "larger than $1 bytes"
  else cat "$word" >"$work/data" && ok "$work/data" || bad EIO "cannot be read"
  fi
}
write_() { # MODE N_USER N_PATH N_DATA
  word "$2"; word "$3"
  take "$4" "$work/data"
  if [ -d "$word" ]; then bad EISDIR "Is a directory"
  elif [ -e "$word" ] && [ ! -f "$word" ]; then bad EINVAL "not a regular file"
  elif mkdir -p "${word%/*}/" && cat "$work/data" >"$word"; then
    [ "$1" -lt 0 ] || chmod "$(printf '%o' "$1")" "$word"
    done_
  else bad EACCES "cannot be written"
  fi
}
stat_() { # N_PATH
  word "$1"
  kind=other
  [ -f "$word" ] && kind=file
  [ -d "$word" ] && kind=dir
  [ -L "$word" ] && kind=link
  if [ -e "$word" ] || [ -L "$word" ]; then
    printf '%s 0 0' $kind >"$work/data"
    ok "$work/data"
  else bad ENOENT "No such file or directory"
  fi
}
led_astray() { # BASE PATH: whether a parent of PATH below BASE is a link, or PATH climbs
  case "/$2/" in */../*) return 0 ;; esac
  walked=$1 left=$2
  while :; do
    case $left in */*) ;; *) return 1 ;; esac
    part=${left%%/*} left=${left#*/}
    walked=$walked/$part
    [ -L "$walked" ] && return 0
  done
}
put() { # REPLACE N_PATH, then entries
  word "$2"; target=${word%/} problem=
  if [ "$1" = 1 ]; then
    if [ -z "$target" ] || led_astray "" "${target#/}"; then problem=EINVAL
    else rm -rf "$target" && mkdir -p "$target" || problem=EACCES
    fi
  else mkdir -p "$target/" || problem=EACCES
  fi
  while :; do
    read -r kind a b c <&9 || leave
    [ "$kind" = . ] && break
    if [ "$kind" = L ]; then word "$a"; name=$word; word "$b"; link=$word
    else word "$b"; name=$word; mode=$(printf '%o' "$a")
    fi
    [ "$kind" = F ] && take "$c" "$work/data"
    [ -z "$problem" ] || continue
    if led_astray "$target" "$name"; then problem=EINVAL; continue; fi
    case $kind in
      D) [ -d "$target/$name" ] || mkdir -m "$mode" "$target/$name" || problem=EACCES ;;
      L) rm -f "$target/$name"; ln -s "$link" "$target/$name" || problem=EACCES ;;
      F) rm -f "$target/$name"; cat "$work/data" >"$target/$name" && chmod "$mode" "$target/$name" || problem=EACCES ;;
    esac
  done
  if [ -z "$problem" ]; then done_; else bad $problem "the tree cannot be put"; fi
}
head_() { # WORD NAME [SIZE]: the start of an entry; SIZE is of what follows the name
  bytes=$(printf %s "$2" | wc -c | tr -d ' ')
  printf '%s %s%s\n' "$1" "$bytes" "${3:+ $3}" >&8
  printf %s "$2" >&8
}
get() { # LIMIT N_PATH
  word "$2"; root=$word limit=$1 left=$1
  if [ ! -e "$root" ]; then bad ENOENT "No such file or directory"; return; fi
  if [ ! -d "$root" ] && [ ! -f "$root" ]; then bad EINVAL "neither a file nor a directory"; return; fi
  set -- "$root"
  while [ $# -gt 0 ]; do
    path=$1 name=
    shift
    [ "$path" = "$root" ] || name=${path#"$root"/}
    if [ -n "$name" ] && [ -L "$path" ]; then
      if to=$(readlink "$path" && echo .); then
        to=${to%??}
        head_ L "$name" "$(printf %s "$to" | wc -c | tr -d ' ')"
        printf %s "$to" >&8
      else head_ S "$name"
      fi
    elif [ -d "$path" ]; then
      head_ D "$name"
      set +f
      set -- "$@" "$path"/* "$path"/.[!.]* "$path"/..?*
      set -f
    elif [ -f "$path" ] && [ -r "$path" ]; then
      head -c $((left + 1)) "$path" >"$work/data"
      amount=$(size "$work/data") mode=420
      [ -x "$path" ] && mode=493
      left=$((left - amount))
      if [ $left -ge 0 ]; then
        head_ "F $mode" "$name" "$amount"
        cat "$work/data" >&8
      fi
    elif [ -e "$path" ]; then head_ S "$name"
    else continue # a pattern that nothing matched
    fi
    left=$((left - 64 - ${#name}))
    if [ $left -lt 0 ]; then bad EFBIG "larger than $limit bytes"; return; fi
  done
  printf '.\n' >&8
}

printf 'READY sh 1\n' >&8
while read -r verb a b c d e f g <&9; do
  begun=$(now)
  case $verb in
    HELLO) printf 'HELLO 1 0 %s\n' "$shell" >&8 ;;
    RUN) run "$a" "$b" "$c" "$d" "$e" "$f" "$g" ;;
    READ) read_ "$a" "$b" "$c" ;;
    WRITE) write_ "$a" "$b" "$c" "$d" ;;
    STAT) stat_ "$a" ;;
    PUT) put "$a" "$b" ;;
    GET) get "$a" "$b" ;;
    OWN) word "$a"; owned=$word; done_ ;;
    KILL) kill_all ""; others; count "$found"; printf '%s' "$counted" >"$work/data"; ok "$work/data" ;;
    OTHERS) others; count "$found"; printf '%s' "$counted" >"$work/data"; ok "$work/data" ;;
  esac
done
leave
