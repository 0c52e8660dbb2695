#!/bin/sh
# Makes the shared object from the archive that cargo built, under the names that programs of Portals 4 ask for.
#   sh link.sh ARCHIVE DIRECTORY
# Only `Ptl*` is shown: cargo's own linker script for shared objects leaves no room for such a list.
# What is built for a sanitizer leaves names open that the program has: then SANITIZER_RUNTIME is set.
set -eu
archive=$1
to=$2
here=$(dirname "$0")
open=${SANITIZER_RUNTIME:+undefs}
"${CC:-cc}" -shared -o "$to/libportals.so.4.new" \
    -Wl,--whole-archive "$archive" -Wl,--no-whole-archive -Wl,--gc-sections \
    -Wl,-soname,libportals.so.4 -Wl,-z,nodelete -Wl,-z,${open:-defs} -Wl,--version-script="$here/portals.map" \
    -lpthread -lm -ldl -lc -lgcc_s
mv -f "$to/libportals.so.4.new" "$to/libportals.so.4"
ln -sf libportals.so.4 "$to/libportals.so"
