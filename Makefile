# Everything runs with Go alone, except tlc and graph, which need Java and a tla2tools.jar.
.DEFAULT_GOAL := help
GO ?= go
# A number of runs, or a time such as 30s. When a time is up, the fuzzer of Go 1.26 now and then reports
# "context deadline exceeded" as a failure that is none (go.dev/issue/75804), so CI runs a number.
FUZZTIME ?= 2000x
ROUNDS ?= 20
SEED ?=

##@ First steps

.PHONY: help
help: ## Print this help
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Send real files through a server that is killed three times, and compare the bytes
	@$(GO) run ./internal/demo

.PHONY: test
test: ## Run all tests
	$(GO) test ./...

.PHONY: build
build: ## Build tidemarkd and tidemark into bin/
	$(GO) build -o bin/ ./cmd/...

##@ While developing

.PHONY: generate
generate: ## Make the generated code, tables and vectors anew from spec/*.yaml
	$(GO) run ./spec/gen

.PHONY: verify
verify: ## Check formatting, vet and the module files
	@test -z "$$(gofmt -l .)" || { echo "not formatted (gofmt -w):"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(GO) mod tidy -diff
	$(GO) mod verify

# The pure packages have one goroutine: the detector finds nothing in them and takes ten times as long.
.PHONY: race
race: ## Run the tests of everything that has goroutines with the race detector
	$(GO) test -race ./server/... ./collector/... ./cmd/... ./config/... ./protocol/... ./internal/...

.PHONY: fuzz
fuzz: ## Run every fuzz target, FUZZTIME each: a number of runs such as 10000x, or a time
	@set -e; for package in $$($(GO) list ./...); do \
		for target in $$($(GO) test -list '^Fuzz' $$package | grep '^Fuzz' || true); do \
			echo "$$package $$target"; $(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s $$package; \
		done; done

.PHONY: crash
crash: ## Kill a real server ROUNDS times at random instants under load; SEED repeats a run
	$(GO) run ./internal/crash -rounds $(ROUNDS)$(if $(SEED), -seed $(SEED))

.PHONY: crash-both
crash-both: ## The same with collectors that are killed too, and have a buffer on disk
	$(GO) run ./internal/crash -both -rounds $(ROUNDS)$(if $(SEED), -seed $(SEED))

.PHONY: crash-forget
crash-forget: ## The same with agents that forget on RECEIVED, against --received durable
	$(GO) run ./internal/crash -forget -rounds $(ROUNDS)$(if $(SEED), -seed $(SEED))

.PHONY: hunt
hunt: ## Explore larger worlds than make test does: some minutes, 5 GB of memory
	TIDEMARK_HUNT=1 $(GO) test ./model/explore -run 'Explore|Shipped' -v -count=1 -timeout 60m

.PHONY: mutants
mutants: ## Break the code in each way of the list and run all layers on it: some minutes; UPDATE=1 writes the table anew
	$(GO) test ./model/mutants -run TestMutants -v -count=1 -timeout 60m -$(if $(UPDATE),update,full)

.PHONY: bench
bench: ## Run the benchmarks of the state machine and the protocol
	$(GO) test -run '^$$' -bench . -benchmem ./statemachine ./protocol

.PHONY: bench-server
bench-server: ## Measure acknowledged-durable records per second beside a bare append-and-fdatasync loop
	$(GO) run ./internal/benchserver

.PHONY: bench-idle
bench-idle: ## Measure what 10,000 collectors cost that send nothing, and an active one beside them
	$(GO) run ./internal/benchidle

##@ The specification

.PHONY: tlc
tlc: ## Check every config with TLC; TLA2TOOLS=/path/to/tla2tools.jar
	docs/spec/run.sh check "$(TLA2TOOLS)"

.PHONY: graph
graph: ## Make the graphs in model/testdata anew with TLC; TLA2TOOLS=/path/to/tla2tools.jar
	docs/spec/run.sh graph "$(TLA2TOOLS)"

##@ Continuous integration

.PHONY: ci
ci: verify test race fuzz ## What CI runs: verify, all tests with the explorer, the race detector, a short fuzz
