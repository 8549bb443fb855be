#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints how many compilers may run at once: one per core, and 1.5 GiB of free memory for each.
set -euo pipefail

free_kib=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || echo max)
if [[ "$limit" != max && $((limit / 1024)) -lt $free_kib ]]; then
  free_kib=$((limit / 1024))
fi
by_memory=$((free_kib / (1536 * 1024)))
cores=$(nproc)
jobs=$((by_memory < cores ? by_memory : cores))
echo $((jobs > 1 ? jobs : 1))
