#!/bin/sh
# First process of a guest of `cargo xtask lab`: mounts what a host has, carries out /lab/plan and switches the guest off.
# Lines that begin with @@ are read by the lab (xtask/src/lab/outcome.rs).
export PATH=/bin:/usr/bin HOME=/ LAB=1
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs run /run
mount -t tmpfs tmp /tmp
chmod 1777 /tmp /dev/shm
ln -sf /proc/self/fd /dev/fd
ip link set lo up
dmesg -n 1 # Only emergencies reach the console, which the lab reads.
echo 1 > /proc/sys/kernel/panic

# An emulator clears memory byte by byte: a huge page takes 10 ms, in which its core runs nothing else.
huge=/sys/kernel/mm/transparent_hugepage/enabled
[ -e $huge ] && echo never > $huge

# The old hierarchies, one a controller, as systemd before version 232 mounted them.
old_groups() {
    mount -t tmpfs groups /sys/fs/cgroup
    for controller in "$@"; do
        grep -q "^$controller[[:space:]].*1$" /proc/cgroups || continue
        mkdir -p "/sys/fs/cgroup/$controller"
        mount -t cgroup -o "$controller" "$controller" "/sys/fs/cgroup/$controller"
    done
}

groups() {
    case $1 in
    v2) mount -t cgroup2 cgroup2 /sys/fs/cgroup ;;
    v1) old_groups cpu cpuset memory pids perf_event freezer ;;
    v1-no-freezer) old_groups cpu cpuset memory pids perf_event ;;
    hybrid)
        old_groups cpu cpuset memory pids freezer
        mkdir -p /sys/fs/cgroup/unified
        mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
        ;;
    esac
}

# Takes a core off line and brings it back, beside what the plan does next.
hotplug() { # CORE SECONDS_UNTIL SECONDS_OFF
    (
        online=/sys/devices/system/cpu/cpu$1/online
        sleep "$2"
        echo 0 > "$online" && gone=$(cat "$online")
        sleep "$3"
        echo 1 > "$online" && echo "@@hotplug $gone $(cat "$online")"
    ) &
}

# Which test is under way, every ten seconds: where the guest is ended at its limit, this is all that tells it.
progress() {
    while sleep 10; do
        echo "@@now $(cut -d ' ' -f 1 /proc/uptime) $(grep '^test ' /tmp/lab.out | tail -n 1)"
    done
}

# step NAME SECONDS COMMAND...: says what it printed, its exit code and how long it took. What is printed goes to files
# first: a slow console would hold the programs up.
step() {
    name=$1 limit=$2
    shift 2
    echo "@@begin $name"
    # What comes from standard input would be the console.
    begin=$(cut -d ' ' -f 1 /proc/uptime)
    watch=
    case $name in "tests "*) progress & watch=$! ;; esac
    timeout -s KILL "$limit" $DROP "$@" > /tmp/lab.out 2> /tmp/lab.err < /dev/null
    code=$?
    [ -z "$watch" ] || kill "$watch"
    end=$(cut -d ' ' -f 1 /proc/uptime)
    echo "@@out"
    tail -c 60000 /tmp/lab.out
    echo
    echo "@@err"
    tail -c 60000 /tmp/lab.err
    echo
    echo "@@end $name $code $begin $end"
}

# tests NAME SECONDS BINARY PACKAGE [TEST...]: a test binary, in its package's directory as `cargo test` does it.
tests() {
    name=$1 limit=$2 binary=$3
    cd "$4" || return
    shift 4
    step "tests $name" "$limit" "$binary" --test-threads=1 --nocapture "$@"
    cd /
    # What an aborted test left must not spoil the next.
    maracas clean > /dev/null 2>&1
}

echo "@@up $(uname -r) $(nproc)"
. /lab/plan
echo "@@kernel $(dmesg | grep -c -E '[Ll]ockup|rcu.*(stall|starved)|[Hh]ung task')"
dmesg | grep -E '[Ll]ockup|rcu.*(stall|starved)|[Hh]ung task|hrtimer: interrupt took|throttling activated|BUG:|WARNING:' | head -n 20
echo "@@done"
poweroff -f
