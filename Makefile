# Needs Go, bash and make. `make` prints what there is.

include .ci/tools

.DEFAULT_GOAL := help
.PHONY: help test ci nightly fmt lint bench fuzz sim

## help: this list
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## test: format, house rules and every test once; its last line says which modules it leaves out
test:
	@bash .ci/run short

## ci: the gate that every submission must pass: `make test`, then vet, staticcheck, the race detector, real disks, simulation and the heavy modules
ci:
	@bash .ci/run

## nightly: every check, with all seeds, cases and kills; hours
nightly:
	@bash .ci/run nightly

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

## fuzz: a search led by coverage with every fuzz target; FUZZ_RUNS=30s or FUZZ_RUNS=1000000x. CI plays the same inputs in every run
FUZZ_RUNS ?= 30s
fuzz:
	@FUZZ_RUNS=$(FUZZ_RUNS) bash .ci/run search

## sim: the simulation of faults alone; SIM_SEEDS=20000 plays more seeds than CI does
SIM_SEEDS ?= 2000
sim:
	@SIM_SEEDS=$(SIM_SEEDS) bash .ci/run sim
