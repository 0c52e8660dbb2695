#!/bin/sh
# Makes the shared object from the archive that cargo built, under the names that programs of MX ask for.
#   sh link.sh ARCHIVE DIRECTORY
# Needed because symbols have versions here: cargo's own linker script for shared objects leaves no room for any.
set -eu
archive=$1
to=$2
here=$(dirname "$0")
"${CC:-cc}" -shared -o "$to/libopen-mx.so.0.new" \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--gc-sections \
    -Wl,-soname,libopen-mx.so.0 -Wl,-z,nodelete -Wl,-z,defs -Wl,--version-script="$here/mx.map" \
    -lpthread -lm -ldl -lc -lgcc_s
mv -f "$to/libopen-mx.so.0.new" "$to/libopen-mx.so.0"
for name in libopen-mx.so libmyriexpress.so libmx.so; do
    ln -sf libopen-mx.so.0 "$to/$name"
done
