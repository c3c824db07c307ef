#!/bin/bash
# A base image made of Debian packages only, for machines that reach no registry.
#
#   base_image.sh KIND CACHE [TAG...]    KIND: small (python3, git, bash, coreutils) or tiny (busybox: sh only)
#
# Prints the path of the root filesystem's tar in CACHE, built once per recipe.  With DOCKER_HOST set it is also
# imported under each TAG.  Exit 77: cannot be built here; the reason is on stderr.
set -eu

kind=${1:-} cache=${2:-}
[ -n "$cache" ] || { echo "usage: base_image.sh small|tiny CACHE [TAG...]" >&2; exit 2; }
shift 2
cannot() { echo "base_image.sh: $*" >&2; exit 77; }

suite=$(. /etc/os-release; echo "${VERSION_CODENAME:-bookworm}")
packages=bash,coreutils,dash,python3,git,grep,sed,gawk,findutils,diffutils,procps,tar,gzip,util-linux,perl-base
packages=$packages,hostname,ca-certificates,base-passwd,libc-bin
recipe=$(printf '%s\n' "1 $kind $suite $packages $(uname -m)" | sha256sum | cut -c1-12)
mkdir -p "$cache"
tar=$cache/base-$kind-$recipe.tar

build_small() {
  command -v mmdebstrap >/dev/null || cannot "mmdebstrap is not installed (apt-get install mmdebstrap)"
  # Unpacked, not configured: enough to run programs, and four times faster.
  mmdebstrap --quiet --format=tar --variant=extract --include="$packages" --extract-hook='
    cp "$1/usr/share/base-passwd/passwd.master" "$1/etc/passwd"
    cp "$1/usr/share/base-passwd/group.master" "$1/etc/group"
    mkdir -p "$1/root" "$1/tmp"; chmod 1777 "$1/tmp"
    ln -sf gawk "$1/usr/bin/awk"
    [ -e "$1/usr/bin/python" ] || ln -s python3 "$1/usr/bin/python"
    chroot "$1" ldconfig
    rm -rf "$1/usr/share/doc" "$1/usr/share/man" "$1/usr/share/locale" "$1"/var/cache/apt/archives/*.deb' \
    "$suite" "$tar.part"
}

build_tiny() {
  command -v busybox >/dev/null || cannot "busybox is not installed (apt-get install busybox-static)"
  local root
  root=$(mktemp -d)
  mkdir -p "$root"/{bin,etc,tmp,root,proc,sys,dev,work}
  chmod 1777 "$root/tmp"
  cp "$(command -v busybox)" "$root/bin/"
  for name in $("$root/bin/busybox" --list); do
    [ "$name" = busybox ] || ln -s busybox "$root/bin/$name"
  done
  echo 'root:x:0:0:root:/root:/bin/sh' >"$root/etc/passwd"
  echo 'root:x:0:' >"$root/etc/group"
  tar -C "$root" --sort=name --mtime=@0 -cf "$tar.part" .
  rm -rf "$root"
}

if [ ! -s "$tar" ]; then
  case $kind in
    small | tiny) "build_$kind" ;;
    *) echo "base_image.sh: no kind '$kind'" >&2; exit 2 ;;
  esac
  mv "$tar.part" "$tar"
fi

if [ -n "${DOCKER_HOST:-}" ]; then
  path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  for tag in "$@"; do
    have=$(docker image inspect -f '{{index .Config.Labels "recipe"}}' "$tag" 2>/dev/null || true)
    [ "$have" = "$recipe" ] || docker import -c "LABEL recipe=$recipe" -c "ENV PATH=$path" "$tar" "$tag" >/dev/null
  done
fi
echo "$tar"
