# Every target does its own set-up: see scripts/, which run without make too.

.DEFAULT_GOAL := help
.PHONY: help setup build demo test lint bench

help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing on this machine; says what before it does
	@scripts/setup.sh

build: ## Build target/release/quell
	@scripts/build

demo: ## Prove a plan for a Polars script: the main job on real input
	@scripts/demo

test: ## Check the format, build and run every test; as root those that watch the kernel too
	@scripts/test

lint: ## Check the format and the lints, warnings as errors
	@scripts/lint

bench: ## Measure what watching costs, against perf, bpftrace and Rezolus; needs root
	@scripts/build
	@bench/overhead/run
