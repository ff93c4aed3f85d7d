//go:build mutants

package main

import (
	"fmt"
	"os"

	"cordwood/fsm/mutant"
)

// mutantVariable names the fault that is planted in this process and its children.
const mutantVariable = "PLANTED_FAULT"

// A binary with the tag mutants is only for seeing that its faults are found.
func init() {
	name := os.Getenv(mutantVariable)
	if !mutant.Set(name) {
		fmt.Fprintf(os.Stderr, "%s: there is no fault %q\n", mutantVariable, name)
		os.Exit(exitUsage)
	}
}
