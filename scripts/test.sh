#!/bin/bash
# Runs every test there is, and ends with a line that says how many passed, failed and were skipped, and why.
#
# usage: bash scripts/test.sh [STEP]...     only these steps; `list` names them
#
# Needs Rust, gcc and g++, Python 3 with venv, Node 20 and the package registries. Everything else is installed under
# target/test and tests/clients/.env; valgrind with apt if this is root, else its runs are skipped.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
exec </dev/null
root=$PWD
scratch=$root/target/test
export CARGO_TERM_COLOR=never PIP_DISABLE_PIP_VERSION_CHECK=1
# The release profile's one unit takes one core; the tests build it in several shapes.
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
unset RANK TP_RANK WORLD_SIZE TP_WORLD_SIZE TPTRACE_LIBRARY PYTHONPATH TP_PROFILER_SAMPLE_MS
target=$(rustc -vV | sed -n 's/^host: //p')
sanitized() { # sanitized NAME CARGO-ARGUMENT...
  local name=$1 flags="-Zsanitizer=$1 -Cunsafe-allow-abi-mismatch=sanitizer"
  shift
  [ "$name" = thread ] && flags="$flags --cfg tptrace_tsan"
  # Without optimisation every inlined function of the standard library is compiled here, and so instrumented.
  TSAN_OPTIONS="suppressions=$root/tests/tsan.supp" CARGO_PROFILE_DEV_OPT_LEVEL=0 RUSTC_BOOTSTRAP=1 RUSTFLAGS="$flags" \
    cargo test --locked --target "$target" --target-dir "target/$name" "$@"
}
venv() { # a fresh environment with the wheel that is built here
  [ -x "$scratch/venv/bin/tested" ] && return
  rm -rf "$scratch/venv" "$scratch/wheel" && python3 -m venv "$scratch/venv" &&
    "$scratch/venv/bin/pip" -q wheel --no-deps -w "$scratch/wheel" ./bindings/python &&
    ls "$scratch"/wheel/tptrace-*-py3-none-manylinux_*.whl >/dev/null &&
    "$scratch/venv/bin/pip" -q install "$scratch"/wheel/*.whl pytest numpy mypy distributed tensorplay==1.0.0 &&
    printf '#!/bin/sh\n' >"$scratch/venv/bin/tested" && chmod +x "$scratch/venv/bin/tested"
}

step_fmt() { cargo fmt --all --check; }
step_clippy() { cargo clippy --locked --all-targets --all-features -- -D warnings; }
# Not all features: the embedded command is for the wheel, and exports one function more.
step_rust() { cargo test --locked --features tracing; }
step_docs() { RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features --quiet; }

# The hostile inputs are large, and show nothing more here.
# Of the GPU's tests those that stay in one process; the others start programs that are not instrumented.
step_tsan() {
  sanitized thread --lib --test threads --test record --test soak && sanitized thread --test journal -- --skip damage --skip lie &&
    sanitized thread --test merge --test summary --test check -- --skip hostile &&
    sanitized thread --test gpu -- collection misbehaviour ops
}
# The recorder's buffers in all orders that threads may take turns in. Loom runs them one at a time: compiling is what takes time.
step_loom() {
  CARGO_PROFILE_DEV_OPT_LEVEL=0 RUSTFLAGS="--cfg loom" \
    cargo test --locked --no-default-features --lib --target-dir target/loom record::models
}
# What reads documents has no unsafe code, and is fuzzed with its checks on.
step_asan() {
  sanitized address --lib --test threads --test documents --test record --test soak --test pftrace &&
    sanitized address --test journal -- --skip lie && sanitized address --test gpu -- collection misbehaviour ops
}
step_python() { venv && cd bindings/python && TPTRACE_REQUIRE_TENSORPLAY=1 TPTRACE_REQUIRE_DASK=1 "$scratch/venv/bin/python" -m pytest -q -p no:cacheprovider; }
step_mypy() { venv && cd bindings/python && "$scratch/venv/bin/mypy" --cache-dir "$scratch/mypy" src/tptrace; }
step_clients() { bash tests/clients/setup.sh && python3 tests/clients/run.py; }
finders() { # CMake comes from the registry, and pkg-config where the machine has none
  "$scratch/venv/bin/pip" -q install cmake && { command -v pkg-config >/dev/null || "$scratch/venv/bin/pip" -q install pkgconf; }
}
step_readme() { venv && finders && cargo build --release --locked && "$scratch/venv/bin/python" tests/readme.py; }
# What is installed, used as its users do.
step_package() {
  venv && finders && "$scratch/venv/bin/pip" -q install auditwheel build &&
    PATH="$scratch/venv/bin:$PATH" python3 tests/package/run.py "$scratch/package" &&
    "$scratch/venv/bin/python" tests/package/wheel.py "$scratch"/wheel/*.whl "$scratch/wheels"
}
step_dependencies() { python3 scripts/dependencies.py; }
step_bench() { venv && cargo bench --locked --bench export -- 20000 1 && cargo bench --locked --bench merge -- 5000 1 && cargo bench --locked --bench gpu -- 5000 1 && cargo bench --locked --bench record -- 20000 1 && python3 benches/cpp_compile.py --rounds 1 && "$scratch/venv/bin/python" benches/python_export.py --ops 5000 --rounds 1 && "$scratch/venv/bin/python" benches/python_spans.py --spans 5000 --rounds 1 && "$scratch/venv/bin/python" benches/python_sampler.py --seconds 0.1 --rounds 1 && "$scratch/venv/bin/python" benches/python_tensorplay.py --steps 20 --rounds 1; }

# Each target for a short time, from its seeds: what it found in hours before stays found. Longer by hand (fuzz/README.md).
step_fuzz() { python3 scripts/fuzz.py --seconds 8; }

# On a machine with a GPU, against torch.profiler. Without one it says so, and why. The tests with fake libraries of CUDA's,
# and with NVIDIA's headers and libraries, are among those of `rust`.
step_gpu() {
  venv && { [ ! -e /dev/nvidiactl ] || "$scratch/venv/bin/pip" -q install torch; } &&
    "$scratch/venv/bin/python" tests/gpu/run.py
}

# The benchmarks stand behind the readers, whose examples ask for the same build of the library.
steps="fmt clippy dependencies rust docs loom tsan asan fuzz python mypy clients bench readme package gpu"
[ "${1:-}" = list ] && { echo "$steps"; exit; }
mkdir -p "$scratch"
# A wheel of before would hide what changed.
rm -f "$scratch/venv/bin/tested"

skipped=()
if ! command -v valgrind >/dev/null; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing valgrind with apt"
    { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends valgrind; } >"$scratch/apt.log" 2>&1 ||
      echo "apt could not install it: $scratch/apt.log"
  fi
  command -v valgrind >/dev/null || skipped+=("valgrind runs (not installed)")
fi
[ -e /dev/nvidiactl ] || skipped+=("tests/gpu/run.py (no GPU here)")

passed=() failed=()
for step in ${*:-$steps}; do
  start=$SECONDS
  echo "== $step"
  if (set -e; "step_$step") >"$scratch/$step.log" 2>&1; then
    passed+=("$step")
    echo "   passed in $((SECONDS - start)) s"
    grep -hE '^test result: |^fuzz: |^clients: |^gpu: |^skipped: |^[0-9]+ passed|^readme: |^package: |^dependencies: |^Success: ' "$scratch/$step.log" | sed 's/^/   /'
  else
    failed+=("$step")
    echo "   FAILED in $((SECONDS - start)) s, from $scratch/$step.log:"
    tail -n 60 "$scratch/$step.log" | sed 's/^/   /'
  fi
done
why=$(IFS=';'; echo "${skipped[*]}")
echo "tests: ${#passed[@]} passed, ${#failed[@]} failed, ${#skipped[@]} skipped (${why//;/; })${failed[*]:+; failed: ${failed[*]}}"
[ ${#failed[@]} = 0 ]
