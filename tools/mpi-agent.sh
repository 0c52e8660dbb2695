#!/bin/sh
# What mpirun takes for ssh, where "hosts" are network namespaces: AGENT HOST COMMAND... runs the command in the namespace that
# MPI_AGENT_HOSTS names for the host, as "ADDRESS=NAMESPACE ADDRESS=NAMESPACE", under a host name of its own.
# Hydra gives ssh's options first (-x, -q).
while [ "${1#-}" != "$1" ]; do
    shift
done
host=$1
shift
for pair in $MPI_AGENT_HOSTS; do
    if [ "${pair%%=*}" = "$host" ]; then
        exec ip netns exec "${pair#*=}" unshare --uts sh -c 'hostname "$1" && exec sh -c "$2"' sh "${pair#*=}" "$*"
    fi
done
echo "mpi-agent: no namespace is known for host $host" >&2
exit 1
