#!/bin/sh
# Builds the library and writes the traces of a made-up training run on two ranks, then says how to open them.
#
# usage: sh scripts/demo.sh [FOLDER]      FOLDER: target/demo if not given
#
# Needs Rust and a C compiler.
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
folder=${1:-$root/target/demo}
cd "$root"
cargo build --release --locked
cargo run --quiet --release --locked --example demo -- "$folder"
echo "The library: $root/target/release/libtptrace.so, its header: $root/include/tracer.h"
