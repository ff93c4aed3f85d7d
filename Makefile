# Every target has one line of help: make help.
# The tag sends raft's and bolt's metrics to one sink; every build and test uses it.
export GOFLAGS = -tags=hashicorpmetrics
VERSION ?= v0.1.0+$(shell git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
LDFLAGS  = -s -w -X main.version=$(VERSION)
ROUNDS  ?= 2
SEED    ?= 0
FROM    ?= 0
SLOW_FOR ?= 60s
FOR     ?= 60s
PROFILE ?=
STEPS   ?= 0
BUDGET  ?= 5m
MUTANTS ?=
LOADED   = TestKilledNodes|TestARollingRestart|TestAPowerCut|TestLiveChanges
MEASURED = TestAPausedFollower
LOOP     = go test -tags "hashicorpmetrics integration" -count 1 -timeout 60m ./integration/loops -v
KAFKA    = integration/kafka/kafka.sh

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

.PHONY: build
build: ## build bin/cordwood, one static binary
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o bin/cordwood ./cmd/cordwood

.PHONY: demo
demo: build ## three nodes, a killed leader, a verdict
	bin/cordwood demo

.PHONY: test
test: ## unit tests; needs nothing but Go
	go test ./...

.PHONY: race
race: ## the same under the race detector
	go test -race ./...

.PHONY: lint
lint: ## formatting, vet, linters
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not formatted:"; gofmt -l $$(git ls-files '*.go'); exit 1; }
	go vet -tags "hashicorpmetrics integration" ./...
	GOFLAGS= go tool -modfile=tools/go.mod golangci-lint run ./...

.PHONY: check-clients
check-clients: ## vet and unit tests of the client matrix, a module of its own (but confluent, which wants a C compiler)
	CGO_ENABLED=0 go vet -C integration/clients . ./kfake
	CGO_ENABLED=0 go test -C integration/clients . ./kfake

.PHONY: vuln
vuln: ## known vulnerabilities that the binary can reach, by a database from the Go module proxy
	tools/vuln.sh

.PHONY: cross
cross: ## build and vet for the release's other platforms
	tools/cross.sh

.PHONY: integration
integration: build ## real nodes on loopback: few rounds of every loop
	$(LOOP) -run '$(LOADED)' -rounds $(ROUNDS) -seed $(SEED)
	$(LOOP) -skip '$(LOADED)|$(MEASURED)' -rounds 1 -seed $(SEED) -slow-for 15s

.PHONY: kill-loops
kill-loops: build ## kill -9 of leader, follower, controller, all, under load (ROUNDS=n)
	$(LOOP) -run TestKilledNodes -rounds $(ROUNDS) -seed $(SEED)

.PHONY: rolling
rolling: build ## restart node after node with SIGTERM under load (ROUNDS=n)
	$(LOOP) -run TestARollingRestart -rounds $(ROUNDS) -seed $(SEED)

.PHONY: bootstrap
bootstrap: build ## five nodes in any order, wiped ones among them: one cluster (ROUNDS=n)
	$(LOOP) -run TestOneCluster -rounds $(ROUNDS) -seed $(SEED)

.PHONY: damage
damage: build ## cut segments and spoil indexes of nodes that are down (ROUNDS=n)
	$(LOOP) -run TestADamagedReplica -rounds $(ROUNDS) -seed $(SEED)

.PHONY: failover
failover: build ## how soon a killed, cut off or slow node is replaced, and when it must not be (ROUNDS=n)
	$(LOOP) -run 'TestAKilledNodeIs|TestACutOffNode|TestASlowNode' -rounds $(ROUNDS) -seed $(SEED) -slow-for $(SLOW_FOR)

.PHONY: reboot
reboot: build ## take the power from all nodes under load: what is lost is named (ROUNDS=n)
	$(LOOP) -run TestARebootedHost -rounds $(ROUNDS) -seed $(SEED)

.PHONY: slow-follower
slow-follower: ROUNDS = 5
slow-follower: build ## what a paused follower costs under each commit rule; a measure, on an idle machine (ROUNDS=n)
	$(LOOP) -run '$(MEASURED)' -rounds $(ROUNDS) -seed $(SEED)

.PHONY: amnesia
amnesia: build ## a node that lost its memory in a majority that lacks what was acknowledged (ROUNDS=n)
	$(LOOP) -run TestAnAmnesiac -rounds $(ROUNDS) -seed $(SEED)

.PHONY: powerloss
powerloss: build ## all nodes lose power: topics that count from disk lose nothing, the others say what (ROUNDS=n)
	$(LOOP) -run TestAPowerCut -rounds $(ROUNDS) -seed $(SEED)

.PHONY: live-changes
live-changes: build ## rule, durability and replicas changed under load, a node killed at each step (ROUNDS=n)
	$(LOOP) -run TestLiveChanges -rounds $(ROUNDS) -seed $(SEED)

.PHONY: whatif
whatif: build ## topic safety --if-down against what happens; four states a round (ROUNDS=n)
	$(LOOP) -run TestWhatIf -rounds $(ROUNDS) -seed $(SEED)

.PHONY: spurious
spurious: build ## leaders fenced by mistake, kills around registration (ROUNDS=n)
	$(LOOP) -run 'TestALeaderFenced|TestKillsAround' -rounds $(ROUNDS) -seed $(SEED)

.PHONY: mixed
mixed: build ## the previous version (integration/previous) and this one in one cluster, under load, both ways round
	$(LOOP) -run TestThePrevious

.PHONY: dist
dist: ## release tarballs with SHA256SUMS, the same bytes each time
	tools/dist.sh "$(VERSION)" "$(LDFLAGS)"

.PHONY: sim
sim: ## simulate clusters with faults for FOR=60s; FROM=n begins there; SEED=n PROFILE=p STEPS=k repeats one schedule
	go test ./integration/sim -run TestRandomSchedules -count 1 -v -timeout 30m -for $(FOR) -from $(FROM) -seed $(SEED) -profile "$(PROFILE)" -steps $(STEPS)

.PHONY: sim-long
sim-long: ## the same for an hour
	go test ./integration/sim -run TestRandomSchedules -count 1 -v -timeout 90m -for 1h

.PHONY: sim-mutants
sim-mutants: ## drop each check of replication in turn: the simulation or a directed test must find it (BUDGET=10m each)
	go test -tags "hashicorpmetrics mutants" ./integration/sim -run TestEveryDroppedCheckIsFound -count 1 -v -timeout 5h -budget $(BUDGET) -mutants "$(MUTANTS)"

BROWSER ?= $(shell command -v chromium chromium-browser google-chrome chrome 2>/dev/null | head -1)
.PHONY: torture
torture: build ## break a cluster under load and check what its clients saw (TORTURE="--nodes 5 --duration 2m --faults all --seed 7")
	bin/cordwood torture $(TORTURE)

.PHONY: torture-long
torture-long: build ## the same for an hour
	bin/cordwood torture --duration 1h --html torture.html $(TORTURE)

.PHONY: torture-zombie
torture-zombie: build ## a leader that is cut off makes no client forget its position
	go test -tags "hashicorpmetrics integration" ./integration/torture -run TestALeaderThatIsCutOff -count 1 -v -timeout 5m -binary "$(CURDIR)/bin/cordwood"

.PHONY: torture-allowed
torture-allowed: build ## what acks=1 loses is allowed, the same of acks=all is not
	go test -tags "hashicorpmetrics integration" ./integration/torture -run TestAcksOneMayLose -count 1 -v -timeout 20m -binary "$(CURDIR)/bin/cordwood"

.PHONY: torture-kafka
torture-kafka: build ## kill and pause three nodes of a real Kafka, then three of ours: two reports (needs Java and Maven)
	@dir=$$(mktemp -d) && integration/kafka/torture.sh bin/cordwood "$$dir/torture" --duration 120s $(TORTURE)

.PHONY: torture-page
torture-page: ## look at torture's report in a browser without a window (BROWSER=/path/of/chromium)
	@test -n "$(BROWSER)" || { echo "torture-page needs Chromium or Chrome: name it with BROWSER=" >&2; exit 1; }
	go test ./integration/torture -run TestThePageReadsWell -count 1 -v -browser "$(BROWSER)"

.PHONY: torture-compose
torture-compose: image ## the same in containers, by docker-compose.yml; then it is killed, and must leave nothing behind (TORTURE="--duration 2m")
	integration/compose/torture.sh $(TORTURE)

.PHONY: torture-librdkafka
torture-librdkafka: ## kill nodes for 60 s under clients of franz-go and of librdkafka in turns (needs a C compiler)
	CGO_ENABLED=1 go build -tags "hashicorpmetrics librdkafka" -trimpath -buildvcs=false -ldflags "$(LDFLAGS)" -o .cache/cordwood-librdkafka ./cmd/cordwood
	.cache/cordwood-librdkafka torture --client both --faults kill --duration 60s $(TORTURE)

.PHONY: torture-mutants
torture-mutants: ## plant faults in the broker: torture must convict each and acquit the healthy one (MUTANTS=a,b for some)
	go test -tags "hashicorpmetrics mutants" ./integration/torture -run TestEveryPlantedFault -count 1 -v -timeout 90m -planted "$(MUTANTS)"

.PHONY: soak
soak: ## the kill loops and the live changes, twenty rounds, and five or ten of the others
	$(MAKE) kill-loops live-changes ROUNDS=20
	$(MAKE) rolling ROUNDS=10
	$(MAKE) reboot damage failover bootstrap ROUNDS=10
	$(MAKE) amnesia powerloss spurious ROUNDS=10
	$(MAKE) whatif slow-follower ROUNDS=5

.PHONY: oracle
oracle: build ## compare our answers with those a real Kafka gave
	integration/oracle/run.sh

.PHONY: clients
clients: build ## the client matrix: every Kafka client on this machine against three nodes (ARGS="-only sarama" for some)
	integration/clients/run.sh $(ARGS)

.PHONY: kafka
kafka: ## start a real Apache Kafka on loopback, to compare with (needs Java and Maven); make kafka-stop ends it
	$(KAFKA) start .cache/kafka 1 19192

.PHONY: kafka-stop
kafka-stop: ## end it
	$(KAFKA) stop .cache/kafka

.cache/kfake: integration/clients/kfake/main.go integration/clients/go.mod
	@mkdir -p .cache
	go build -C integration/clients -o ../../.cache/kfake ./kfake

.PHONY: bench
bench: build .cache/kfake ## figures beside what this machine can do at best, as ratios; some minutes (BENCH="-mb 128 -only three,rules")
	go run ./integration/bench $(BENCH)

.PHONY: peers
peers: build ## the same load on three nodes of Apache Kafka and of ours, in turns; needs Java and Maven (PEERS=-short)
	go run ./integration/peers $(PEERS)

.PHONY: bench-scale
bench-scale: build ## the same for 10,000 partitions of three replicas
	go run ./integration/bench -scale $(BENCH)

.PHONY: image
image: build ## the container image, from the ready binary
	DOCKER_BUILDKIT=0 docker build -q --target prebuilt -t cordwood:latest .

.PHONY: up
up: image ## three nodes in containers; returns when all are healthy
	integration/compose/up.sh

.PHONY: down
down: ## end them; data stays in the volumes
	docker-compose down

.PHONY: compose
compose: image ## the container cluster's own test
	integration/compose/test.sh

.PHONY: clean
clean: ## remove what was built
	rm -rf bin dist
