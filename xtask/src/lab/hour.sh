#!/bin/sh
# hour.sh run SECONDS: a run by the scheduler in the kernel for so long, beside programs of no VCPU. What is printed is judged by
# xtask/src/lab/hour.rs. The other words are those programs: each notes the longest time for which it had no turn.
ext=/sys/kernel/sched_ext
notes=/tmp/hour
# The guest's time, in hundredths of a second.
now() {
    read -r now idle < /proc/uptime
    now=${now%.*}${now#*.}
}
# What ran since last time, and how long there was nothing; DUE hundredths of a second are no gap.
turn() { # DUE
    now
    [ $((now - last - $1)) -gt $gap ] && gap=$((now - last - $1))
    last=$now
    turns=$((turns + 1))
}
# Waits for `end`, which asks for what was noted.
watched() { # NAME DUE
    name=$1 due=$2 gap=0 turns=0
    now
    last=$now
    trap 'turn $due; echo "$name $gap $turns" > $notes/$name; exit' TERM
}
# How many lines of the kernel's log say that a scheduler was ended, or that a core or a thread had to wait for too long.
ended() {
    dmesg | grep -E 'runnable task stall|watchdog|sched_ext:.*(disabled|error)|[Ll]ockup|stalled' | grep -cv 'disabled (unregistered from user space)'
}
# Which scheduler is loaded, without a fork, which takes long on a slow host.
scheduler() {
    state= ops= sequence=
    read -r state < $ext/state
    { read -r ops < $ext/root/ops; } 2> /dev/null
    read -r sequence < $ext/enable_seq
    scheduler="$state $ops $sequence"
}

case $1 in
spin)
    watched "$2" 0
    while :; do
        n=0
        while [ $n -lt 50 ]; do n=$((n + 1)); done
        turn 0
    done
    ;;
sleep)
    watched "$2" 100
    while :; do
        sleep 1
        turn 100
    done
    ;;
fork)
    # A fork alone, and one that becomes another program.
    watched "$2" 200
    while :; do
        (:)
        sleep 2
        turn 200
    done
    ;;
run)
    seconds=$2
    mkdir -p $notes
    before=$(ended)
    maracas run /lab/hour.toml --duration "${seconds}s" --json --backend sched-ext > /tmp/hour.json 2> /tmp/hour.err &
    run=$!
    now
    begun=$now
    # It measures what the host costs first: that is not to be disturbed.
    while sleep 4 && [ "$(cat $ext/state)" != enabled ] && kill -0 $run; do :; done
    scheduler
    first=$scheduler
    programs=
    for core in 0 1; do
        for word in spin spin sleep fork; do
            count=$((count + 1))
            taskset $((core + 1)) sh "$0" $word "$word$count-core$core" &
            programs="$programs $!"
        done
    done
    looks=0 others=0 early= middle=
    # It ends by itself: what it is by then is seen below.
    while now && kill -0 $run && [ $((now - begun)) -lt $((seconds * 100 - 1500)) ]; do
        sleep 20
        looks=$((looks + 1))
        scheduler
        [ "$scheduler" = "$first" ] || others=$((others + 1))
        resident=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' /proc/$run/status)
        now
        # For whoever waits, in the lab's log.
        echo "@@now $((now - begun)) of ${seconds}00, $resident KiB, $scheduler" > /dev/console
        [ -z "$early" ] && [ $((now - begun)) -ge $((seconds * 100 / 12)) ] && early=$resident
        [ -z "$middle" ] && [ $((now - begun)) -ge $((seconds * 100 / 2)) ] && middle=$resident
    done
    echo "scheduler $first looks $looks others $others rejected $(cat $ext/nr_rejected)"
    echo "resident $early $middle $resident"
    wait $run
    code=$?
    now
    echo "ended code $code after $((now - begun)) watchdog $(($(ended) - before)) state $(cat $ext/state)"
    kill $programs
    wait $programs
    cat $notes/*
    dmesg | tail -n 100 >&2
    tail -n 5 /tmp/hour.err >&2
    cat /tmp/hour.json
    ;;
esac
