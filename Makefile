# SPDX-License-Identifier: Apache-2.0
# The way in. Every target works from a clean clone: it installs missing Debian packages (and says which),
# configures, builds, then does its work. What is built and tested is defined by CMakePresets.json.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.NOTPARALLEL:
.DEFAULT_GOAL := help

JOBS ?= $(shell scripts/jobs.sh)

# Real expert loads are no part of the project; tests that can use them do so where they lie beside the clone.
ifneq ($(wildcard ../shared/data/loads),)
export TRIMTAB_LOADS_DIR ?= $(abspath ../shared/data/loads)
endif

.PHONY: help setup build demo test bench peers model lint format asan tsan fuzz soak fuzzers spec clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' Makefile

setup: ## Install the Debian packages that are missing
	@scripts/setup.sh build

build: setup configure-release ## Build the program, build/release/bin/trimtab
	cmake --build --preset release --parallel $(JOBS) --target bin/trimtab

demo: build ## Serve the small language model, balancing off and on
	build/release/bin/trimtab run --model models/small

test: setup configure-release ## Build everything and run all tests
	cmake --build --preset release --parallel $(JOBS)
	ctest --preset release

bench: setup configure-release ## Run all benchmarks beside their raw twins; writes bench/results/
	cmake --build --preset release --parallel $(JOBS) --target benchmarks
	bench/run.py --build build/release

peers: ## Fetch the planners of DeepSeek, SGLang and vLLM: make test and make bench then compare with them
	@scripts/setup.sh peers
	bench/peers/setup.py

# Memory that is not given back between steps: a tenth of a step's time.
KEEP_PAGES := glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=4000000000:glibc.malloc.top_pad=268435456
model: build ## Train the small model from nothing (about an hour); writes models/small/
	@scripts/setup.sh train
	GLIBC_TUNABLES=$(KEEP_PAGES) /usr/bin/python3 -B models/train/train.py --work build/model --out models/small

lint: setup configure-release ## Check layout, static analysis, include directions and headers
	@scripts/setup.sh lint
	scripts/lint.sh --jobs $(JOBS)

format: ## Lay out all sources with clang-format
	@scripts/setup.sh lint
	git ls-files -z '*.cpp' '*.hpp' '*.c' '*.h' | xargs -0 clang-format -i

asan: setup configure-asan ## Test under AddressSanitizer, LeakSanitizer and UndefinedBehaviorSanitizer
	cmake --build --preset asan --parallel $(JOBS)
	ctest --preset asan

tsan: setup configure-tsan ## Test under ThreadSanitizer
	cmake --build --preset tsan --parallel $(JOBS)
	ctest --preset tsan

fuzz: setup fuzzers ## Fuzz tables, dispatch, buffers and headers, 10 s each
	scripts/fuzz.sh 10

soak: setup fuzzers build ## Fuzz the same for half an hour; move weights in a million random programs under faults; all deaths over two hosts
	scripts/fuzz.sh 600
	build/release/bin/trimtab verify --campaign 400000 --seed $$RANDOM --mutants
	build/release/bin/trimtab verify --campaign 200 --ranks 320 --nodes 40 --seed $$RANDOM
	build/release/bin/trimtab verify --campaign 1200 --transport ucx --ranks 3 --seed $$RANDOM
	TRIMTAB_SOAK=1 ctest --preset release --label-regex '^hosts$$'

fuzzers:
	@scripts/setup.sh fuzz
	@cmake --preset fuzz >/dev/null
	cmake --build --preset fuzz --parallel $(JOBS)

spec: setup ## Check the protocol model: its properties hold, its mutants are caught, its transitions are listed
	@scripts/setup.sh spec
	specs/check.py

clean: ## Remove everything that was built
	rm -rf build

configure-%: setup
	@cmake --preset $* >/dev/null
