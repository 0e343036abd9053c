#!/bin/sh
# The lifecycle of a Debian package, printed in sections ("== name"), on a private copy of this machine: an overlay
# over / in a separate mount namespace, removed with this process. It has separate process and network namespaces, too.
# Argument: a folder with dist/*.deb, manifest.yaml and the scripts installed.sh, started.sh and removed.sh.
set -eu
umask 022  # / and /tmp of that machine are for all its users, with any umask of this one
story=$1
work=$story/overlay

mkdir "$work"
mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
mount -t proc proc "$work/root/proc"
mount --rbind /dev "$work/root/dev"
mount -t tmpfs tmpfs "$work/root/tmp"
mount -t tmpfs tmpfs "$work/root/run"
# Packages may be installed on this machine at the same time: the copy gets the package database of one moment.
rm -rf "$work/root/var/lib/dpkg"
python3 - "$work/root/var/lib/dpkg" <<'COPY'
import fcntl, subprocess, sys
with open("/var/lib/dpkg/lock-frontend", "a") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    subprocess.run(["cp", "-a", "/var/lib/dpkg", sys.argv[1]], check=True)
COPY
ip link set lo up
cp -r "$story/dist" "$story/manifest.yaml" "$story"/*.sh "$work/root/tmp"
chmod -R a+rX "$work/root/tmp"
echo 'APT::Install-Recommends "false";' >"$work/root/tmp/apt.conf"

there() {
  chroot "$work/root" env -i -C /tmp PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 TERM=dumb \
    SYSTEMD_OFFLINE=1 DEBIAN_FRONTEND=noninteractive APT_CONFIG=/tmp/apt.conf "$@" 2>&1
}

# What was added to the machine, without the databases of apt, dpkg and the users.
added() {
  (cd "$work/upper" && find . -type f -o -type l) | sed 's|^\.||' | sort |
    grep -Ev '^/(var/(lib/(apt|dpkg|systemd)|log|cache)/|etc/(passwd|shadow|group|gshadow)-?$|etc/\.pwd\.lock$)' || true
  (cd "$work/upper" && find . -mindepth 1 -type d) | while read -r folder; do
    [ -d "/$folder" ] || echo "${folder#.}/"
  done
}

echo "== installed"
there sh -eu /tmp/installed.sh
echo "== versions"
for program in ank ank-server ank-agent; do there "$program" --version; done
echo "== up"
there ank up --settle --runtime native /tmp/manifest.yaml
echo "== up without root"
there runuser -u nobody -- ank up --settle --runtime native /tmp/manifest.yaml
echo "== units"
if command -v systemd-analyze >/dev/null; then
  units=/usr/lib/systemd
  there systemd-analyze verify "$units/system/ank-server.service" "$units/system/ank-agent.service" || echo "ended with $?"
  there env XDG_RUNTIME_DIR=/run systemd-analyze --user verify "$units/user/ank-agent.service" || echo "ended with $?"
else
  echo "no systemd-analyze"
fi
echo "== started"
# No systemd runs here: these are the programs that its units would start, as the users they name.
mkdir "$work/root/run/ankaios"
there setpriv --reuid ank-server --regid ank-server --clear-groups ank-server >"$work/server.log" &
there ank-agent >"$work/agent.log" &
tries=0
until grep -q "Agent 'node1' has connected" "$work/server.log" || [ $tries -gt 200 ]; do
  tries=$((tries + 1))
  sleep 0.1
done
there sh -eu /tmp/started.sh || cat "$work/server.log" "$work/agent.log"
echo "== updated"
# To a version with other settings for `ank`, which are unchanged here. The installation is not interactive.
dpkg-deb --raw-extract "$story"/dist/*.deb "$work/next"
sed -i 's/^Version: .*/&+next/' "$work/next/DEBIAN/control"
echo "# of the next version" >>"$work/next/etc/ankaios/ank.conf"
dpkg-deb -Znone --build "$work/next" "$work/root/tmp/next.deb"
there dpkg --install /tmp/next.deb </dev/null
echo "== settings after the update"
there sh -c 'grep -v "^#[^ ]" /etc/ankaios/*.conf'
echo "== removed"
there apt-get remove --yes ankaios
echo "== left after remove"
added
echo "== purged"
there sh -eu /tmp/removed.sh
echo "== left after purge"
added
