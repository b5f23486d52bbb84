# `make test` is what CI runs, stage by stage the same. It needs Go and bash; see .ci/run for the stages.

include .ci/tools

.PHONY: test fmt lint bench fuzz sim

## test: every check that a change must pass
test:
	@bash .ci/run

## fmt: format all Go files
fmt:
	@go run $(GOFUMPT) -l -w .

## lint: the checks that need no test run, with the house rules
lint:
	@bash .ci/run format vet staticcheck tidy
	@go test -count=1 ./internal/lint

## bench: all scenarios beside their limits; BENCH="-run ingest/sync -json" passes flags
bench:
	@go run ./bench $(BENCH)

## fuzz: every fuzz target for longer than CI does; FUZZ_RUNS=30s or FUZZ_RUNS=1000000x
FUZZ_RUNS ?= 30s
fuzz:
	@FUZZ_RUNS=$(FUZZ_RUNS) bash .ci/run fuzz

## sim: the simulation of faults alone; SIM_SEEDS=20000 plays more seeds than every check does
SIM_SEEDS ?= 2000
sim:
	@SIM_SEEDS=$(SIM_SEEDS) bash .ci/run sim
