#!/bin/sh
# What `lab.service` does in a guest with systemd: installs the package, has its service start, hold a budget, be reloaded,
# killed and stopped, and switches the guest off. Lines that begin with @@ are read by the lab (xtask/src/lab/outcome.rs).
exec > /dev/console 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LAB=1
dmesg -n 1 # Only emergencies reach the console, which the lab reads.
# As in the other guests: clearing a huge page takes an emulator 10 ms.
huge=/sys/kernel/mm/transparent_hugepage/enabled
[ -e $huge ] && echo never > $huge

# A scenario with this budget, in a file of this name.
scenario() { # NAME BUDGET DURATION
    cat > "/etc/maracas/$1.toml" <<END
version = 1
[platform]
cores = 2
[policy]
name = "maracas"
background = "off"
[run]
duration = "$3"
[[program]]
name = "camera"
command = ["/usr/bin/maracas", "work", "spin"]
output = "null"
budget = "$2"
period = "20ms"
core = 0
END
}

# Whether the running system gives the program this budget, within some seconds.
has_budget() { # BUDGET_NS
    for _ in $(seq 50); do
        maracas vcpu list --json > /tmp/list 2> /tmp/list.err && grep -q "\"budget_ns\": $1\b" /tmp/list && return
        sleep 0.1
    done
    cat /tmp/list /tmp/list.err >&2
    return 1
}

# Whether systemd says this of the unit, within some seconds.
says() { # UNIT PROPERTY=VALUE
    for _ in $(seq 100); do
        systemctl show "$1" | grep -qxE "$2" && return
        sleep 0.1
    done
    echo "$1 is not $2:" >&2
    systemctl status "$1" >&2
    return 1
}

install() { dpkg -i /lab/maracas.deb && systemctl cat maracas@lab > /dev/null; }

# A run that ends by itself. As in the other guests its mean is to be within 0.1 % of the budget, and it may say by 4 that
# single periods were not: cores of the emulator take turns while systemd is busy beside it.
holds() {
    scenario short 4ms 3s
    systemctl start maracas@short || return
    says maracas@short 'ActiveState=(inactive|failed)' && says maracas@short 'ExecMainStatus=[04]' || return
    journalctl --quiet --output cat --unit maracas@short | tee /tmp/said
    grep -qE '^camera 4ms/20ms +(4ms|3\.99[6-9][0-9]*ms|4\.00[0-3][0-9]*ms)' /tmp/said
}

start() {
    scenario lab 4ms 600s
    systemctl start maracas@lab && says maracas@lab ActiveState=active && has_budget 4000000
}

reload() {
    scenario lab 6ms 600s
    systemctl reload maracas@lab && has_budget 6000000
}

# More than the core has is refused, and nothing changes.
refused() {
    scenario lab 19.9ms 600s
    systemctl reload maracas@lab && return 1
    has_budget 6000000 && says maracas@lab ActiveState=active
}

killed() {
    scenario lab 5ms 600s
    first=$(systemctl show --property MainPID --value maracas@lab)
    kill -KILL "$first" && says maracas@lab NRestarts=1 && says maracas@lab ActiveState=active || return
    [ "$(systemctl show --property MainPID --value maracas@lab)" != "$first" ] && has_budget 5000000
}

# Nothing is left: no process of ours, and no group but systemd's own slice.
stop() {
    systemctl stop maracas@lab && says maracas@lab 'ActiveState=(inactive|failed)' || return
    says maracas@lab 'Result=(success|exit-code)' && says maracas@lab 'ExecMainStatus=[04]' || return
    groups=$(find /sys/fs/cgroup -type d -name '*maracas*' ! -name system-maracas.slice)
    processes=$(grep -l maracas /proc/[0-9]*/comm 2> /dev/null)
    echo "groups left: ${groups:-none}; processes left: ${processes:-none}"
    [ -z "$groups$processes" ]
}

# A service that runs is stopped before its package goes.
remove() {
    scenario lab 4ms 600s
    systemctl start maracas@lab && has_budget 4000000 && dpkg -r maracas || return
    ! systemctl is-active maracas@lab && [ ! -e /usr/bin/maracas ]
}

# step NAME: says what it printed, its exit code and how long it took.
step() {
    echo "@@begin $1"
    begin=$(cut -d ' ' -f 1 /proc/uptime)
    "$1" > /tmp/lab.out 2> /tmp/lab.err < /dev/null
    code=$?
    end=$(cut -d ' ' -f 1 /proc/uptime)
    echo "@@out"
    cat /tmp/lab.out
    echo
    echo "@@err"
    cat /tmp/lab.err
    echo
    echo "@@end $1 $code $begin $end"
}

echo "@@up $(uname -r) $(nproc)"
for name in install holds start reload refused killed stop remove; do
    step "$name"
done
echo "@@kernel $(dmesg | grep -c -E '[Ll]ockup|rcu.*(stall|starved)|[Hh]ung task')"
echo "@@done"
systemctl poweroff --force --force
