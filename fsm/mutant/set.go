//go:build mutants

package mutant

import (
	"maps"
	"slices"
)

// switches finds the variable of a name.
var switches = map[string]*bool{
	"noELR":              &NoELR,
	"ruleNoBoth":         &RuleNoBoth,
	"noMinISR":           &NoMinISR,
	"noMaximal":          &NoMaximal,
	"amnesiacVotes":      &AmnesiacVotes,
	"ruleDirect":         &RuleDirect,
	"noJoint":            &NoJoint,
	"ruleEarly":          &RuleEarly,
	"divergeCounts":      &DivergeCounts,
	"noLESO":             &NoLESO,
	"noFence":            &NoFence,
	"maxLEO":             &MaxLEO,
	"noBarrier":          &NoBarrier,
	"noLeaderBE":         &NoLeaderBE,
	"pendAnyUpdate":      &PendAnyUpdate,
	"certEarly":          &CertEarly,
	"staleResp":          &StaleResp,
	"noAlterBE":          &NoAlterBE,
	"noMarker":           &NoMarker,
	"noRegBarrier":       &NoRegBarrier,
	"finalEarly":         &FinalEarly,
	"certAtHW":           &CertAtHW,
	"noObservers":        &NoObservers,
	"wLow":               &WLow,
	"dupEarly":           &DupEarly,
	"electFenced":        &ElectFenced,
	"minKeepELR":         &MinKeepELR,
	"rejClears":          &RejClears,
	"durDirect":          &DurDirect,
	"proofByHW":          &ProofByHW,
	"finClearOnly":       &FinClearOnly,
	"electKeepsELR":      &ElectKeepsELR,
	"rejIneligible":      &RejIneligible,
	"finNoBump":          &FinNoBump,
	"lastLeaderAnyTrust": &LastLeaderAnyTrust,
	"durNoBump":          &DurNoBump,
	"finReset":           &FinReset,
	"noStartEp":          &NoStartEp,
	"unsafeCertAll":      &UnsafeCertAll,
	"ruleNoMarker":       &RuleNoMarker,
	"noVoterBE":          &NoVoterBE,
	"oldEpochFetch":      &OldEpochFetch,
	"durEarly":           &DurEarly,
	"zeroCopyNoGate":     &ZeroCopyNoGate,
	"truncNoDirSync":     &TruncNoDirSync,
	"serveUnflushed":     &ServeUnflushed,
}

// planted finds those that are planted for whole clusters.
var planted = map[string]*bool{
	"ackEarly":      &AckEarly,
	"countsSent":    &CountsSent,
	"truncToHW":     &TruncToHW,
	"offByOne":      &OffByOne,
	"lostProducers": &LostProducers,
	"noDedup":       &NoDedup,
	"unclean":       &Unclean,
	"diskEarly":     &DiskEarly,
}

// Set drops the check of that name and no other; an empty name drops none. False if there is no such check. Not safe while
// anything runs.
func Set(name string) bool {
	for _, all := range []map[string]*bool{switches, planted} {
		for _, s := range all {
			*s = false
		}
	}
	if name == "" {
		return true
	}
	for _, all := range []map[string]*bool{switches, planted} {
		if s, ok := all[name]; ok {
			*s = true
			return true
		}
	}
	return false
}

// Names lists the checks; what is planted for whole clusters is not among them.
func Names() []string { return slices.Sorted(maps.Keys(switches)) }
