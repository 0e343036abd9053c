#!/bin/sh
# Runs a command on a private copy of this machine, removed with this process, and then lists the files that the command
# left outside of one folder: machine_copy.sh SCRATCH FOLDER PREPARATION COMMAND [ARGUMENTS...]
# PREPARATION is a line of shell that changes the copy before. To be started with mounts, processes and a network of its
# own. What was left comes after the line "== left".
set -eu
copy=$1/copy own=$2 preparation=$3
shift 3
mkdir "$copy"
mount -t tmpfs tmpfs "$copy"
mkdir "$copy/upper" "$copy/work" "$copy/root"
chmod 0755 "$copy/upper"
mount -t overlay overlay -o "lowerdir=/,upperdir=$copy/upper,workdir=$copy/work" "$copy/root"
mount -t proc proc "$copy/root/proc"
mount --rbind /dev "$copy/root/dev"
mount --rbind /sys "$copy/root/sys"
mount -t tmpfs shm "$copy/root/dev/shm"
mkdir -p "$copy/root$own"
mount --rbind "$own" "$copy/root$own"
ip link set lo up

# What differs from the machine: type and path. Removed things are there as devices.
changes() { (cd "$copy/upper" && find . -mindepth 1 ! -path ".$own/*" -printf '%y /%P\n' | sort); }

chroot "$copy/root" sh -euc "$preparation"
changes >"$copy/before"
ip -brief link | sort >"$copy/links"
code=0
chroot "$copy/root" env -C / "$@" || code=$?

echo "== left"
changes | comm -13 "$copy/before" - | while read -r type path; do
  # A folder that was there before and only got another time; not one that the preparation had removed.
  [ "$type" = d ] && [ -d "$path" ] && ! grep -qx "c $path" "$copy/before" || echo "file $path"
done
ip -brief link | sort | comm -13 "$copy/links" - | sed 's|^|network link |'
find "$copy/root/dev/shm" -mindepth 1 -printf 'file /dev/shm/%P\n'
ls "$copy/root/run/netns" 2>/dev/null | sed 's|^|network namespace |'
for place in /proc/[0-9]*; do
  # All but this script and what it runs for itself just now.
  [ "$(cut -d' ' -f4 "$place/stat" 2>/dev/null)" = 1 ] && tr '\0' ' ' <"$place/cmdline" 2>/dev/null |
    grep -Ev '^(/bin/sh |sort|comm|sed|tr|grep|cut|find|ls)' | sed 's|^|process |'
done
exit $code
