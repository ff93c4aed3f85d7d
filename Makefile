# Every target has one line of help: make help.
GOFLAGS_COMMON = -tags=hashicorpmetrics
export GOFLAGS = $(GOFLAGS_COMMON)

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16
