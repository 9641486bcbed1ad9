#!/bin/sh
# Does what it can to get more than its budget: forks, execs, threads, real-time priority, another core, a better nice value,
# and it stops and continues itself.
# What it asks for is to be refused: kernel-live.sh counts these answers.
{
    chrt -f 50 true
    chrt -r 50 true
    chrt -d -T 1000000 -D 10000000 -P 10000000 0 true
    nice -n -20 true
} 2> /tmp/refused
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
