// Package mutant names the checks of replication that the simulation is tested with: each can be dropped from the real code
// by name, and a schedule or a directed test must then fail. Only a binary built with the tag mutants can drop one.
package mutant
