#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every fuzzer that was built for the given number of seconds, from the corpus and what earlier runs found
# in build/fuzz/found. An input that fails is left in build/fuzz and named; fixed, it joins the corpus, which
# every build replays.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:?usage: scripts/fuzz.sh SECONDS}

# LeakSanitizer cannot work under a debugger or in some containers; the asan preset looks for leaks.
export ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
for fuzzer in build/fuzz/bin/fuzz_*; do
  kind=${fuzzer##*/fuzz_}
  corpus=tests/fuzz/corpus/$kind
  found=build/fuzz/found/$kind
  mkdir -p "$found"
  echo "fuzz: $kind for $seconds s"
  log=build/fuzz/$kind.log
  if ! "$fuzzer" -max_total_time="$seconds" -max_len=1024 -timeout=10 -artifact_prefix="build/fuzz/$kind-" \
    "$found" "$corpus" &>"$log"; then
    cat "$log"
    exit 1
  fi
  grep DONE "$log"
done
