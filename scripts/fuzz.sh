#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzzer that was built for the given number of seconds, from the corpus. With --keep, inputs that
# reach new code join the corpus, which is then made as small as it can be. An input that fails is left in
# build/fuzz, and named by the fuzzer.
set -euo pipefail
cd "$(dirname "$0")/.."

keep=false
if [[ "${1:-}" == --keep ]]; then
  keep=true
  shift
fi
seconds=${1:?usage: scripts/fuzz.sh [--keep] SECONDS}

# LeakSanitizer cannot work under a debugger or in some containers; the asan preset looks for leaks.
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
for fuzzer in build/fuzz/bin/fuzz_*; do
  kind=${fuzzer##*/fuzz_}
  corpus=tests/fuzz/corpus/$kind
  found=build/fuzz/found/$kind
  mkdir -p "$found"
  echo "fuzz: $kind for $seconds s"
  "$fuzzer" -max_total_time="$seconds" -max_len=1024 -timeout=10 -print_final_stats=0 -verbosity=0 \
    -artifact_prefix="build/fuzz/$kind-" "$found" "$corpus"
  if "$keep"; then
    rm -rf "$found.small"
    mkdir "$found.small"
    "$fuzzer" -merge=1 -verbosity=0 "$found.small" "$corpus" "$found"
    rm -rf "$corpus"
    mv "$found.small" "$corpus"
  fi
done
