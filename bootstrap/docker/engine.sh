#!/bin/bash
# A private Docker engine for tests, on a machine where none is running.
#
#   engine.sh start DIR    start (or find) it; prints DOCKER_HOST=unix://DIR/docker.sock
#   engine.sh stop DIR     end it and remove its containers' leftovers; images stay in DIR
#
# It has its own data, socket and network rules: no bridge, no iptables, so containers get `none` or `host`.
# Exit 77: this machine cannot run one (not root, no dockerd, no cgroup limits); the reason is on stderr.
set -u

action=${1:-} dir=${2:-}
[ -n "$dir" ] || { echo "usage: engine.sh start|stop DIR" >&2; exit 2; }
socket="unix://$dir/docker.sock"
cannot() { echo "engine.sh: $*" >&2; exit 77; }
answers() { docker -H "$socket" version >/dev/null 2>&1; }

stop() {
  local pid
  pid=$(cat "$dir/pid" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null || return 0
  for _ in $(seq 100); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -9 "$pid" 2>/dev/null
}

# Keep the control groups that are mounted; else mount version 2; else one version 1 hierarchy per controller.
mount_cgroups() {
  grep -q ' cgroup2\? ' /proc/mounts && return 0
  mkdir -p /sys/fs/cgroup
  mount -t cgroup2 none /sys/fs/cgroup 2>/dev/null && return 0
  mount -t tmpfs -o mode=755 cgroup /sys/fs/cgroup || return 1
  awk '!/^#/ && $4 == 1 {print $1}' /proc/cgroups | while read -r name; do
    mkdir -p "/sys/fs/cgroup/$name"
    mount -t cgroup -o "$name" cgroup "/sys/fs/cgroup/$name" || rmdir "/sys/fs/cgroup/$name"
  done
}

start() {
  answers && return 0
  [ "$(id -u)" = 0 ] || cannot "a private engine needs root"
  command -v dockerd >/dev/null || cannot "dockerd is not installed (apt-get install docker.io)"
  command -v docker >/dev/null || cannot "the docker client is not installed"
  mount_cgroups || cannot "no control groups can be mounted"
  mkdir -p "$dir/data" "$dir/exec"
  setsid dockerd --data-root "$dir/data" --exec-root "$dir/exec" --pidfile "$dir/pid" -H "$socket" \
    --iptables=false --ip6tables=false --bridge=none >"$dir/log" 2>&1 </dev/null &
  local engine=$!
  for _ in $(seq 150); do
    answers && break
    kill -0 "$engine" 2>/dev/null || { tail -5 "$dir/log" >&2; cannot "the engine ended while starting"; }
    sleep 0.2
  done
  answers || { stop; cannot "the engine did not answer within 30 s"; }
  # An engine that drops limits only warns; a sandbox without limits is none.
  local limits
  limits=$(docker -H "$socket" info --format '{{.MemoryLimit}} {{.PidsLimit}}')
  [ "$limits" = "true true" ] || { stop; cannot "the engine cannot limit memory and processes ($limits)"; }
}

case $action in
  start) start && echo "DOCKER_HOST=$socket" ;;
  stop) stop ;;
  *) echo "usage: engine.sh start|stop DIR" >&2; exit 2 ;;
esac
