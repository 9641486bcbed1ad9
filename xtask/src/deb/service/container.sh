#!/bin/sh
# Starts a Debian with systemd as process 1 of namespaces of its own, and waits for its end.
#
#   container.sh DEBIAN SHARED
#
# DEBIAN is the system's folder, which stays as it is: what is written goes to memory. SHARED is seen inside
# as /shared; its `check.service` is started, which ends the container by `systemctl exit`.
set -eu

inside() { # what process 1 does before it becomes systemd
    place=/tmp
    mount -t tmpfs -o mode=755 tmpfs $place
    mkdir $place/upper $place/work $place/root
    root=$place/root
    mount -t overlay -o "lowerdir=$1,upperdir=$place/upper,workdir=$place/work" overlay $root
    mkdir -p $root/shared
    mount --bind "$2" $root/shared
    mount -t proc proc $root/proc
    # What systemd sets by sysctl would be set for the whole host.
    mount --bind $root/proc/sys $root/proc/sys
    mount -o remount,bind,ro $root/proc/sys
    mount -t sysfs -o ro sysfs $root/sys
    mount -t cgroup2 cgroup2 $root/sys/fs/cgroup
    mount -t tmpfs -o mode=755 tmpfs $root/dev
    mkdir $root/dev/pts $root/dev/shm
    mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts $root/dev/pts
    mount -t tmpfs -o mode=1777 tmpfs $root/dev/shm
    # The numbers are those of Documentation/admin-guide/devices.txt.
    for device in null:3 zero:5 full:7 random:8 urandom:9; do
        mknod -m 666 "$root/dev/${device%:*}" c 1 "${device#*:}"
    done
    mknod -m 666 $root/dev/tty c 5 0
    ln -s pts/ptmx $root/dev/ptmx
    ln -s /proc/self/fd $root/dev/fd
    ln -s /shared/check.service $root/etc/systemd/system/check.service
    mkdir -p $root/etc/systemd/system/multi-user.target.wants
    ln -s ../check.service $root/etc/systemd/system/multi-user.target.wants/check.service
    # Mounts of the host's own.
    for unit in sys-kernel-debug sys-kernel-tracing dev-hugepages sys-fs-fuse-connections; do
        ln -s /dev/null $root/etc/systemd/system/$unit.mount
    done
    echo maracas > $root/etc/hostname
    : > $root/etc/machine-id
    cd $root
    mkdir -p before
    pivot_root . before
    umount -l /before
    rmdir /before
    exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        setpriv --bounding-set=-sys_module,-sys_time,-syslog /lib/systemd/systemd
}

if [ "$1" = inside ]; then
    inside "$2" "$3"
fi

# The root of the container's control groups, with what the host can hand down.
unified=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/mounts)
before=$unified$(sed -n 's/^0:://p' /proc/self/cgroup)
group=$unified/maracas-container-$$
mkdir "$group"
leave() {
    echo $$ > "$before/cgroup.procs"
    [ ! -e "$group/cgroup.kill" ] || echo 1 > "$group/cgroup.kill"
    for _ in $(seq 50); do
        find "$group" -depth -type d -exec rmdir {} + 2> /dev/null && return
        sleep 0.1
    done
}
trap leave EXIT
for controller in cpuset cpu memory pids; do
    echo "+$controller" > "$unified/cgroup.subtree_control" 2> /dev/null || true
done
echo $$ > "$group/cgroup.procs"
# It ends by itself, within a minute; unshare heeds no other signal.
timeout --signal=KILL 180 unshare --mount --uts --ipc --net --cgroup --pid --fork --kill-child=KILL \
    sh "$0" inside "$1" "$2"
