# What is tried of the package under systemd, as process of a service of its own: installed, started, reloaded, killed, stopped,
# removed. Each step says `ok NAME SECONDS` or `failed NAME`; what it printed stands above. Ends the container.
scenario() { # NAME BUDGET DURATION
    cat > "/etc/maracas/$1.toml" << END
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

# Runs a command until it succeeds, for ten seconds.
soon() {
    for _ in $(seq 100); do
        "$@" && return
        sleep 0.1
    done
    echo "not within 10 s: $*"
    return 1
}

has_budget() { # BUDGET_NS
    maracas vcpu list --json 2> /dev/null | grep -q "\"budget_ns\": $1\b"
}

# Whether systemd says this of the unit.
says() { # UNIT PROPERTY=REGEXP
    systemctl show "$1" | grep -qxE "$2"
}

said() { # UNIT
    journalctl --quiet --output cat --unit "$1"
}

# Processes and control groups of runs; systemd keeps a slice for all instances of a unit.
left() {
    find /sys/fs/cgroup -type d -name '*maracas*' ! -name system-maracas.slice
    grep -l maracas /proc/[0-9]*/comm 2> /dev/null
}

nothing_left() { [ -z "$(left)" ]; }

installs() {
    dpkg -i /shared/maracas.deb > /dev/null && systemctl cat maracas@lab > /dev/null
}

# Four programs for ten seconds, from the package's examples. The run says itself whether it kept its promises (0) or a period was
# short (4), of which a guest whose host takes time away has some; the means are to be right at any rate.
holds() {
    cp /usr/share/doc/maracas/examples/quickstart.toml /etc/maracas/
    systemctl start maracas@quickstart || return
    sleep 10
    soon says maracas@quickstart 'ActiveState=(inactive|failed)' || return
    said maracas@quickstart
    systemctl show --property ExecMainStatus --property Result maracas@quickstart
    says maracas@quickstart 'ExecMainStatus=[04]' || return
    # Budget, period and what was delivered, all in ms: within 0.1 %, four times.
    said maracas@quickstart | awk '
        split($2, of, "/") == 2 && of[1] ~ /^[0-9]+ms$/ && $3 ~ /^[0-9.]+ms$/ {
            if ($3 + 0 >= 0.999 * of[1] && $3 + 0 <= 1.001 * of[1]) right++
        }
        END { exit right != 4 }'
}

starts() {
    scenario lab 4ms 600s
    systemctl start maracas@lab && soon has_budget 4000000
}

confines() {
    maracas vcpu list
    systemd-cgls --no-pager --unit maracas@lab.service
    find /sys/fs/cgroup -path '*maracas/*' -name cgroup.procs | while read -r group; do
        echo "$group: $(tr '\n' ' ' < "$group")"
    done
}

reloads() {
    scenario lab 6ms 600s
    systemctl reload maracas@lab && soon has_budget 6000000
}

# More than the core has is refused with a sentence, and nothing changes.
refuses() {
    scenario lab 19.9ms 600s
    ! systemctl reload maracas@lab && has_budget 6000000 && says maracas@lab ActiveState=active || return
    said maracas@lab | grep -i -A 3 refused
}

comes_back() {
    scenario lab 5ms 600s
    first=$(systemctl show --property MainPID --value maracas@lab)
    kill -KILL "$first"
    soon says maracas@lab NRestarts=1 && soon has_budget 5000000 || return
    [ "$(systemctl show --property MainPID --value maracas@lab)" != "$first" ]
}

stops() {
    begin=$(cut -d ' ' -f 1 /proc/uptime)
    systemctl stop maracas@lab || return
    echo "stopped within $(cut -d ' ' -f 1 /proc/uptime | awk "{ print \$1 - $begin }") s"
    systemctl show --property ExecMainStatus --property Result maracas@lab
    says maracas@lab 'ExecMainStatus=[04]' && soon nothing_left && return
    left
    return 1
}

# A service that runs is stopped before its package goes.
goes() {
    scenario lab 4ms 600s
    systemctl start maracas@lab && soon has_budget 4000000 && dpkg -r maracas > /dev/null || return
    ! systemctl --quiet is-active maracas@lab && [ ! -e /usr/bin/maracas ] && soon nothing_left && return
    left
    return 1
}

failed=0
for name in installs holds starts confines reloads refuses comes_back stops goes; do
    begin=$(cut -d ' ' -f 1 /proc/uptime)
    if "$name"; then
        echo "ok $name $(cut -d ' ' -f 1 /proc/uptime | awk "{ print \$1 - $begin }")"
    else
        systemctl status --no-pager maracas@lab
        said maracas@lab | tail -30
        echo "failed $name"
        failed=1
    fi
done
[ $failed = 1 ] || echo "all steps went well"
systemctl exit $failed
