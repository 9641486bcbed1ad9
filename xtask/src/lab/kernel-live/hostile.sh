#!/bin/sh
# Does what it can to get more than its budget: forks, execs, threads, real-time priority, another core, a better nice value,
# and it stops and continues itself.
while :; do /bin/true; done &
while :; do ( : ); done &
maracas work spin --threads 3 --quiet &
chrt -f 50 maracas work spin --quiet &
chrt -r 50 maracas work spin --quiet &
taskset 2 maracas work spin --quiet &
nice -n -20 maracas work spin --quiet &
setsid maracas work spin --quiet &
maracas work spin --quiet &
child=$!
while :; do
    kill -STOP $child
    kill -CONT $child
done
