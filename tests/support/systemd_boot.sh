#!/bin/sh
# Process 1 of a private machine: systemd on an overlay over /, as a container manager would start it.
# Started in separate namespaces for mounts, processes, network, names and control groups. Argument: an empty folder.
# See https://systemd.io/CONTAINER_INTERFACE for what systemd expects to find.
set -eu
umask 022  # its files are for all its users, with any umask of this one
work=$1

mount -t tmpfs tmpfs "$work"
mkdir "$work/upper" "$work/work" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/work" "$work/root"
cd "$work/root"
mount -t proc proc proc
# The kernel is shared with the machine below: its variables can be read, and systemd finds nothing to set.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty fuse net/tun; do
  [ -e "/dev/$node" ] || continue
  mkdir -p "dev/$(dirname "$node")"
  touch "dev/$node"
  mount --bind "/dev/$node" "dev/$node"
done
ln -s /proc/self/fd dev/fd
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs dev/shm
# Home folders, enabled units and containers of the machine below are not used in this one.
for folder in root home run tmp etc/systemd/system var/lib/containers var/log; do
  mkdir -p "$folder"
  mount -t tmpfs -o mode=755 tmpfs "$folder"
done
chmod 1777 tmp dev/shm
# It does not mount the disks of the machine below either.
: >etc/fstab
echo ankaios-test >etc/hostname
# Without root rights, /proc can be mounted in a container only if it is somewhere in full.
mkdir run/below run/proc
mount -t proc proc run/proc
touch run/machine-of-a-test
pivot_root . run/below
exec setpriv --bounding-set -sys_module,-sys_rawio,-sys_time,-sys_boot,-syslog -- \
  env -i container=ankaios-test PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 sh -euc '
  umount -l /run/below
  rmdir /run/below
  mount --make-rshared /
  exec /lib/systemd/systemd --log-target=journal --show-status=no --unit=basic.target'
