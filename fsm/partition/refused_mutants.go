//go:build mutants

package partition

import "cordwood/fsm/mutant"

// Refused is what a leader must not do when the controller refuses its proposal: take that for the end of it. Another copy
// of the proposal may still be accepted.
func (l *Leader) Refused(ineligible bool) {
	if mutant.RejClears || mutant.RejIneligible && ineligible {
		l.proposals = nil
	}
}
