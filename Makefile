# What a person does with Trek, by name. The building itself is CMake's (CMakePresets.json);
# tools/setup installs the Debian packages a target needs, and nothing the second time.

TOOLS := trek-as trek-dis trek-run
FUZZERS := text binary data
FUZZ_SECONDS ?= 600
JOBS ?= $(shell nproc)

CONFIGURE := cmake --log-level=NOTICE --preset

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test figures fuzz coverage format lint bench

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## Train the MLP of samples/ on Fashion-MNIST and show where the time went
	tools/setup demo
	$(CONFIGURE) release
	cmake --build --preset release --target $(TOOLS)
	build/release/bin/trek-run samples/03_fashion_mnist.trek --profile

test: ## Build and run every test, with 60 s of each fuzzer under sanitizers
	tools/setup test
	$(CONFIGURE) dev
	cmake --build --preset dev
	$(CONFIGURE) asan-ref
	cmake --build --preset asan-ref --target $(TOOLS) $(FUZZERS:%=fuzz-%)
	ctest --preset dev -j $(JOBS)

figures: ## Measure the accuracy figures that the manual shows (long)
	tools/setup test
	$(CONFIGURE) dev
	cmake --build --preset dev --target figures

fuzz: ## Fuzz each reader for FUZZ_SECONDS (600) under ASan and UBSan
	tools/setup test
	$(CONFIGURE) asan-ref
	cmake --build --preset asan-ref --target $(FUZZERS:%=fuzz-%)
	FUZZ_SECONDS=$(FUZZ_SECONDS) tools/fuzz $(FUZZERS)

coverage: ## Report the lines of isa/ and assembler/ that tests reach; fail below 95 %
	tools/setup coverage
	$(CONFIGURE) coverage
	cmake --build --preset coverage
	tools/coverage

format: ## Format every source file with clang-format-19
	tools/setup format
	tools/format

lint: ## Check format, includes and clang-tidy-19's list (.clang-tidy)
	tools/setup lint
	$(CONFIGURE) dev
	tools/format --check
	tools/check_includes.py
	tools/tidy

bench: ## Measure against spirv-as, spirv-dis, oneDNN, OpenBLAS and PyTorch, as ratios in one run
	tools/setup bench
	$(CONFIGURE) bench
	cmake --build --preset bench --target $(TOOLS) run-bench
