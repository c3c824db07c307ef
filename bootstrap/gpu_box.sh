#!/usr/bin/env bash
# From a machine with an NVIDIA GPU to a certified model endpoint.  Rerunning goes on where it stopped.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: gpu_box.sh --model NAME|DIR [options]

Makes this machine a deterministic model endpoint: checks the driver, installs SGLang into an environment of its own,
fetches the model, serves it in the background, runs the determinism gate, and prints the lines for your ht.toml.

  --model NAME|DIR        name on the model hub, or a directory with the model's files
  --revision REV          the hub's revision to fetch; default: main
  --max-running N         requests at once to serve and to certify; default: 10
  --context-length N      tokens; default: what the model says
  --engine-option K=V     a flag of SGLang without its dashes; may be repeated
  --host ADDRESS          address to listen on; default: 127.0.0.1 (reach it through an ssh tunnel)
  --port N                default: 8000
  --home DIR              where everything goes; default: ~/ht-box
  --source SPEC           what to install for `ht`; default: the clone this script is in, else harnesstrain
  --sglang VERSION        default: 0.5.23
  --min-driver N          oldest driver that the installed kernels take; default: 580
  --wait SECONDS          how long the model may take to load; default: 1800
  --stop                  stop the server, and do nothing else
  --help

The certificate holds for the [llm.sampling] in DIR/box/ht.toml.  Change that, and run this again.
Environment: PYTHON names the interpreter to make the environment with.
TEXT
}

say() { echo "# $*" >&2; }
fail() { local code=$1; shift; echo "error: $*" >&2; exit "$code"; }
number() { [[ $2 =~ ^[1-9][0-9]*$ ]] || fail 2 "$1 takes a positive number, not '$2'"; }

model='' revision=main max_running=10 context='' host=127.0.0.1 port=8000 home=${HOME:-.}/ht-box
source='' sglang=0.5.23 min_driver=580 wait=1800 stop=no
declare -a options=()
while (($#)); do
  case $1 in
    --help | -h) usage; exit 0 ;;
    --stop) stop=yes; shift; continue ;;
    --model | --revision | --max-running | --context-length | --engine-option | --host | --port | --home | --source | \
      --sglang | --min-driver | --wait) (($# > 1)) || fail 2 "$1 takes a value; --help shows what there is" ;;
    *) fail 2 "unknown option '$1'; --help shows what there is" ;;
  esac
  case $1 in
    --model) model=$2 ;;
    --revision) revision=$2 ;;
    --max-running) number "$1" "$2"; max_running=$2 ;;
    --context-length) number "$1" "$2"; context=$2 ;;
    --engine-option) options+=(--engine-option "$2") ;;
    --host) host=$2 ;;
    --port) number "$1" "$2"; port=$2 ;;
    --home) home=$2 ;;
    --source) source=$2 ;;
    --sglang) sglang=$2 ;;
    --min-driver) number "$1" "$2"; min_driver=$2 ;;
    --wait) number "$1" "$2"; wait=$2 ;;
  esac
  shift 2
done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
[[ $home == /* ]] || home=$PWD/$home
venv=$home/venv box=$home/box python=${PYTHON:-python3}

if [[ $stop == yes ]]; then
  [[ -x $venv/bin/ht && -d $box ]] || fail 6 "nothing was set up in $home"
  cd "$box"
  exec "$venv/bin/ht" serve-llm --stop
fi
[[ -n $model ]] || fail 2 "--model is needed; --help shows what there is"

check_driver() {
  command -v nvidia-smi >/dev/null || fail 6 "no NVIDIA driver is here: nvidia-smi is not on the PATH"
  local found driver
  found=$(nvidia-smi --query-gpu=driver_version,name,memory.total --format=csv,noheader) ||
    fail 6 "the NVIDIA driver does not answer: $found"
  [[ -n $found ]] || fail 6 "the driver shows no GPU"
  driver=${found%%.*}
  [[ $driver =~ ^[0-9]+$ ]] || fail 6 "the driver's version is not known: $found"
  ((driver >= min_driver)) ||
    fail 6 "driver $driver is older than $min_driver; install a newer one, or give --sglang and --min-driver that fit"
  say "GPU: ${found//$'\n'/; }"
}

check_python() {
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail 6 "Python 3.11 or newer is needed"
}

install() {
  [[ -x $venv/bin/python ]] || "$python" -m venv "$venv"
  if [[ -z $source ]]; then
    source=harnesstrain
    [[ ! -f $root/pyproject.toml ]] || source=$root
  fi
  local wanted="$source[sglang] sglang==$sglang"
  if [[ -f $home/installed && $(<"$home/installed") == "$wanted" ]]; then
    say "installed: $wanted"
    return
  fi
  say "installing $wanted into $venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$source[sglang]" "sglang==$sglang" >&2
  echo "$wanted" >"$home/installed"
}

fetch() {
  if [[ -d $model ]]; then
    weights=$(cd "$model" && pwd)
    return
  fi
  weights=$home/models/${model//\//--}@$revision
  if [[ -f $weights.complete ]]; then
    say "model: $weights"
    return
  fi
  say "fetching $model ($revision) to $weights"
  mkdir -p "$weights"
  "$venv/bin/hf" download "$model" --revision "$revision" --local-dir "$weights" >&2
  touch "$weights.complete"
}

serve() {
  [[ -f $box/ht.toml ]] || "$venv/bin/ht" init "$box" >&2
  cd "$box"
  [[ -z $context ]] || options+=(--context-length "$context")
  url=$("$venv/bin/ht" serve-llm --engine sglang --model "$weights" --deterministic --max-running "$max_running" \
    --host "$host" --port "$port" --wait "$wait" --detach ${options[@]+"${options[@]}"})
  say "serving at $url"
}

certify() {
  say "certifying; this asks the model some hundred times"
  HT_LLM_ENGINE=auto "$venv/bin/ht" certify model --max-running "$max_running" --thorough --exit-code >&2 ||
    fail $? "the endpoint is served, but not certified; 'ht log' and the lines above say more"
}

check_driver
check_python
mkdir -p "$home"
install
fetch
serve
certify
say "certified; for the ht.toml of the project that uses it:"
[[ $host != 0.0.0.0 ]] || url=${url/0.0.0.0/$(hostname)}
cat <<TEXT
[llm]
engine = "external"
url = "$url"
TEXT
