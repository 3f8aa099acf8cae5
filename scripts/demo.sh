#!/bin/sh
# Builds the library and the command, has it record a made-up training run on two ranks, and says how to open the traces.
#
# usage: sh scripts/demo.sh [FOLDER]      FOLDER: target/demo if not given
#
# Needs Rust and a C compiler.
set -eu
folder=${1:-}
case $folder in
  '' | /*) ;;
  *) folder=$PWD/$folder ;;
esac
cd "$(dirname -- "$0")/.."
# On all cores, as the tests build it; the release profile's one unit, which scripts/install.sh installs, takes half as long again.
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
cargo build --release --locked
built=${CARGO_TARGET_DIR:-$PWD/target}/release
folder=${folder:-$PWD/target/demo}
"$built/tptrace" demo --force -o "$folder"
echo "
The command:        $built/tptrace
The library:        $built/libtptrace.so, its header $PWD/include/tracer.h"
