# Every target does its own set-up: see scripts/, which run without make too.

.DEFAULT_GOAL := help
.PHONY: help setup build static dist demo test test-kernels lint bench luf luf-model

help: ## Say what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Install what is missing on this machine; says what before it does
	@scripts/setup.sh

build: ## Build target/release/quell
	@scripts/build

static: ## Build a quell that needs no library of the machine that it runs on
	@scripts/static

dist: ## Pack that: a tarball, a Debian package and a Python wheel, with man pages, completions and a unit
	@scripts/dist

demo: ## Find and prove what wins time for a Python script: the main job on real input
	@scripts/demo

test: ## Check the format, build and run every test; as root those that watch the kernel too
	@scripts/test

test-kernels: ## Test the probe under Ubuntu's 5.15 and Debian's 6.1 to 7.3, in virtual machines without KVM
	@scripts/test-kernels

lint: ## Check the format and the lints, warnings as errors
	@scripts/lint

bench: ## Measure what watching costs, against perf, bpftrace and Rezolus; needs root
	@scripts/build
	@bench/overhead/run

luf: ## Build the kernel of kernel/luf, stress it, and measure what deferred flushes save, in virtual machines
	@scripts/luf

luf-model: ## Search the protocol of kernel/luf for a stale read, and without each of its barriers and checks
	@scripts/luf-model
