#!/bin/sh
# Runs a command beside an Ethernet segment of its own: COUNT interfaces v0, v1, … that hear each other, over a bridge.
# Usage: unshare --net sh tools/segment.sh COUNT COMMAND [ARGUMENT...]    (the namespace goes with the command)
set -e
count=$1
shift
ip link add segment type bridge
ip link set segment up
number=0
while [ "$number" -lt "$count" ]; do
    ip link add "v$number" type veth peer name "port$number"
    ip link set "port$number" master segment
    ip link set "port$number" up
    ip link set "v$number" up
    number=$((number + 1))
done
sleep 0.3 # until all have carriers
exec "$@"
