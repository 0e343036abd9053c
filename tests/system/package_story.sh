#!/bin/sh
# The life of a Debian package, told in sections ("== name"), on a copy of this machine that nobody else sees: an overlay
# over / in a mount namespace of its own, gone with this process. Arguments: an empty folder, the package, a manifest.
set -eu
work=$1 package=$2 manifest=$3

mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
mount --rbind /proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
mount -t tmpfs tmpfs "$work/root/tmp"
mount -t tmpfs tmpfs "$work/root/run"
cp "$package" "$work/root/tmp/ankaios.deb"
cp "$manifest" "$work/root/tmp/manifest.yaml"

there() { chroot "$work/root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"; }

# What was added to the machine, without the books that dpkg and the user database keep.
added() {
  (cd "$work/upper" && find . -type f -o -type l) |
    sed 's|^\.||' | grep -Ev '^/(var/(lib/(dpkg|systemd)|log|cache)/|etc/(passwd|shadow|group|gshadow)-?$|etc/\.pwd\.lock$)' | sort || true
  (cd "$work/upper" && find . -mindepth 1 -type d) | while read -r folder; do
    [ -d "/$folder" ] || echo "${folder#.}/"
  done
}

echo "== install"
there dpkg --install /tmp/ankaios.deb
echo "== versions"
for program in ank ank-server ank-agent; do there "$program" --version; done
echo "== up"
there ank up --settle --runtime native /tmp/manifest.yaml 2>&1
echo "== doctor"
there ank doctor || true
echo "== units"
if command -v systemd-analyze >/dev/null; then
  there systemd-analyze verify /usr/lib/systemd/system/ank-server.service /usr/lib/systemd/system/ank-agent.service 2>&1 ||
    echo "verify ended with $?"
else
  echo "no systemd-analyze"
fi
echo "== user"
if command -v systemd-sysusers >/dev/null; then there id -un ank-server; else echo "no systemd-sysusers"; fi
echo "== again"
there dpkg --install /tmp/ankaios.deb
echo "== remove"
there dpkg --remove ankaios
echo "== left after remove"
added
echo "== purge"
there dpkg --purge ankaios
echo "== left after purge"
added
