#!/bin/sh
# What befalls a run by the scheduler in the kernel, one case a word. Lines `fact NAME VALUE` are judged by
# xtask/src/lab/kernel_live.rs; reports of `maracas run` go to files of which the plan prints what it needs.
by="--backend sched-ext"
state() { cat /sys/kernel/sched_ext/state; }
# until SECONDS COMMAND...: waits until it succeeds; says whether it did.
until_true() {
    tries=$(($1 * 20))
    shift
    while [ $tries -gt 0 ]; do
        "$@" && return 0
        sleep 0.05
        tries=$((tries - 1))
    done
    return 1
}
is_enabled() { [ "$(state)" = enabled ]; }
is_disabled() { [ "$(state)" = disabled ]; }
# Processes whose command line has these words: the shell of guests has no pgrep.
processes() {
    for process in /proc/[0-9]*; do
        case $(tr '\0' ' ' 2> /dev/null < "$process/cmdline") in *"$1"*) echo "${process#/proc/}" ;; esac
    done
}
guardian() { processes __guardian | head -n 1; }
# What stands in the control groups of runs.
programs() { cat /sys/fs/cgroup/maracas/*/vcpu-*/cgroup.procs 2> /dev/null; }
has_programs() { [ -n "$(programs)" ]; }
groups() { find /sys/fs/cgroup/maracas -mindepth 1 -type d 2> /dev/null; }
is_gone() { [ -z "$(groups)" ]; }
# Starts a run in the background, and waits until its programs run under the scheduler.
begin() { # FILE SECONDS NAME
    maracas run "$1" --duration "$2s" --json $by --journal "/tmp/$3.journal" > "/tmp/$3.json" 2> "/tmp/$3.err" &
    run=$!
    until_true 20 is_enabled
    until_true 20 has_programs
    sleep 1
}
# Whether groups or programs are left.
left() {
    until_true 5 is_gone
    left=$({ groups; for words in 'work spin' /lab/hostile.sh /lab/exec.sh; do processes "$words"; done; } | tr '\n' ' ')
    echo "fact left ${left:-nothing}"
}
# How the run ended, and what is left of it.
after() { # NAME
    wait $run
    echo "fact code $?"
    until_true 5 is_disabled
    echo "fact state $(state)"
    left
    echo "fact clean $(maracas clean 2>&1 | tail -n 1)"
    tail -n 3 "/tmp/$1.err" >&2
}
# Suspends the host to memory, and its clock wakes it: all cores but one go off line on the way.
suspend_host() {
    alarm=/sys/class/rtc/rtc0/wakealarm
    before=$(cat /sys/power/suspend_stats/success)
    echo 0 > $alarm
    echo +4 > $alarm
    echo deep > /sys/power/mem_sleep
    echo mem > /sys/power/state
    echo "fact suspended $(($(cat /sys/power/suspend_stats/success) - before))"
}
replayed() { # NAME
    maracas replay "/tmp/$1.journal" > /tmp/replay.out 2>&1
    echo "fact replay $?"
    [ -s /tmp/replay.out ] && tail -n 2 /tmp/replay.out >&2
}
# Real-time threads below the groups of runs: an escape from the scheduler.
escapes() {
    count=0
    for group in $(groups); do
        for tid in $(cat "$group/cgroup.threads" 2> /dev/null); do
            policy=$(sed 's/.*) //' "/proc/$tid/stat" 2> /dev/null | cut -d ' ' -f 39)
            case $policy in 1 | 2 | 6) count=$((count + 1)) ;; esac
        done
    done
    echo "$count"
}

case $1 in
hostile)
    begin /lab/hostile.toml 4 hostile
    escaped=0
    for look in 1 2 3 4; do
        now=$(escapes)
        [ "$now" -gt "$escaped" ] && escaped=$now
        sleep 0.3
    done
    echo "fact escapes $escaped"
    echo "fact refused $(grep -c 'not permitted\|denied' /tmp/refused)"
    cat /tmp/refused >&2
    after hostile
    replayed hostile
    cat /tmp/hostile.json
    ;;
storm | exec | threads)
    begin "/lab/$1.toml" "$2" "$1"
    after "$1"
    replayed "$1"
    cat "/tmp/$1.json"
    ;;
global)
    # global POLICY SECONDS agents|sched-ext
    sed "s/^name = \"run\"/name = \"$2\"/" "$5" > /tmp/global.toml
    maracas run /tmp/global.toml --duration "$3s" --json --backend "$4" --journal /tmp/global.journal > /tmp/global.json 2> /tmp/global.err
    code=$?
    echo "fact code $code"
    tail -n 3 /tmp/global.err >&2
    if [ $code = 1 ]; then echo "fact replay refused"; else replayed global; fi
    rm -f /tmp/global.journal
    cat /tmp/global.json
    ;;
memory | throttle)
    # WORD SECONDS agents|sched-ext FILE: page faults in place of reads of memory.
    file=${4:-/lab/throttle.toml}
    maracas run "$file" --duration "$2s" --json --backend "$3" --journal /tmp/$1.journal > /tmp/$1.json 2> /tmp/$1.err
    echo "fact code $?"
    replayed "$1"
    tail -n 3 /tmp/$1.err >&2
    left
    # What no fault can say is refused by name, with the way out.
    sed 's/throttle = "rate"/throttle = "latency"/; s/sense = "faults"/sense = "off"/' "$file" > /tmp/blind.toml
    maracas run /tmp/blind.toml --duration 1s $by > /tmp/blind.out 2>&1
    echo "fact blind $? $(grep -c 'throttle = "rate"\|replay:FILE' /tmp/blind.out)"
    cat /tmp/$1.json
    ;;
killed-runtime)
    begin /lab/plain.toml 30 killed
    kill -9 $run
    after killed
    ;;
killed-both)
    begin /lab/plain.toml 30 killed
    kill -9 $run "$(guardian)"
    wait $run
    until_true 5 is_disabled
    echo "fact state $(state)"
    maracas clean > /tmp/clean.out 2>&1
    tail -n 3 /tmp/clean.out >&2
    left
    echo "fact clean $(maracas clean 2>&1 | tail -n 1)"
    ;;
killed-guardian)
    begin /lab/plain.toml 4 killed
    first=$(guardian)
    kill -9 "$first"
    sleep 1
    second=$(guardian)
    [ -n "$second" ] && [ "$second" != "$first" ] && echo "fact guardian another"
    after killed
    replayed killed
    cat /tmp/killed.json
    ;;
two)
    begin /lab/plain.toml 6 first
    for backend in sched-ext agents; do
        maracas run /lab/one.toml --duration 1s --backend $backend > /tmp/second.out 2>&1
        echo "fact second-$backend $? $(grep -c "is managed by\|end of the scheduler maracas" /tmp/second.out)"
        tail -n 1 /tmp/second.out >&2
    done
    after first
    cat /tmp/first.json
    ;;
moved)
    # One of its threads' groups is another for a while: it belongs to its VCPU all the same.
    begin /lab/plain.toml 4 moved
    pid=$(programs | head -n 1)
    home=/sys/fs/cgroup$(cut -d : -f 3 "/proc/$pid/cgroup")
    echo "$pid" > /sys/fs/cgroup/cgroup.procs && echo "fact moved away"
    sleep 1
    echo "$pid" > "$home/cgroup.procs" && echo "fact moved back"
    after moved
    replayed moved
    cat /tmp/moved.json
    ;;
away)
    # It is moved there and stays: it is its VCPU's until the run ends, and ends with it.
    begin /lab/plain.toml 4 away
    programs | head -n 1 > /sys/fs/cgroup/cgroup.procs && echo "fact moved away"
    after away
    replayed away
    cat /tmp/away.json
    ;;
hotplug)
    begin /lab/plain.toml 30 hotplug
    online=/sys/devices/system/cpu/cpu1/online
    echo 0 > $online
    after hotplug
    echo 1 > $online
    echo "fact online $(cat $online)"
    grep -q 'off line\|hotplug\|going offline' /tmp/hotplug.err && echo "fact said why"
    ;;
suspend)
    begin /lab/plain.toml 30 suspend
    suspend_host
    after suspend
    grep -q 'going offline' /tmp/suspend.json && echo "fact said why"
    ;;
suspend-agents)
    # The same where agents hold the budgets: their cores are on line again before they go on.
    by="--backend agents"
    is_enabled() { true; }
    begin /lab/plain.toml 30 suspend-agents
    suspend_host
    after suspend-agents
    grep -A 3 ".trouble." /tmp/suspend-agents.json | tail -n 2 >&2
    grep -q 'taken off line' /tmp/suspend-agents.json && echo "fact said why"
    ;;
stopped)
    # For a moment: what it had sent holds. For good: it is ended.
    begin /lab/plain.toml 60 stopped
    kill -STOP $run
    sleep 0.2
    kill -CONT $run
    sleep 1
    kill -0 $run && echo "fact lives after-a-moment"
    begun=$(cut -d . -f 1 /proc/uptime)
    kill -STOP $run
    is_over() { ! kill -0 $run 2> /dev/null || [ -z "$(groups)" ]; }
    until_true 30 is_over
    echo "fact ended-within $(($(cut -d . -f 1 /proc/uptime) - begun))"
    after stopped
    grep -q 'has been stopped' /tmp/stopped.err && echo "fact said why"
    ;;
esac
