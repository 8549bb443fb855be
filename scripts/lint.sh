#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# All checks that read the sources. Runs every one, then fails if any did. `--all`: clang-tidy on every source.
set -euo pipefail
cd "$(dirname "$0")/.."

jobs=$(scripts/jobs.sh)
tidy_scope=()
while [[ $# -gt 0 ]]; do
  case "$1" in
    --jobs) jobs=$2 && shift 2 ;;
    --all) tidy_scope=(--all) && shift ;;
    *) echo "lint: unknown argument '$1' (known: --jobs N, --all)" >&2 && exit 2 ;;
  esac
done

failed=()
check() {
  local name=$1 start=$SECONDS
  shift
  if "$@"; then
    echo "lint: $name ok ($((SECONDS - start)) s)"
  else
    echo "lint: $name FAILED"
    failed+=("$name")
  fi
}

layout() {
  git ls-files -z '*.cpp' '*.hpp' '*.c' '*.h' | xargs -0 -P "$jobs" -n 20 clang-format --dry-run -Werror
}

headers() {
  cmake --build --preset release --parallel "$jobs" --target check_headers
}

check "layout (clang-format)" layout
check "licence lines and paths" scripts/lint/tracked_files.py
check "include directions" scripts/lint/include_directions.py
check "headers compile alone" headers
check "static analysis (clang-tidy)" scripts/lint/tidy.py --jobs "$jobs" "${tidy_scope[@]}"

if [[ ${#failed[@]} -gt 0 ]]; then
  printf 'lint: failed: %s\n' "${failed[@]}" >&2
  exit 1
fi
