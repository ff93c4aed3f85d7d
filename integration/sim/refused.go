//go:build !mutants

package sim

import "cordwood/fsm/metadata"

// refused does nothing: no answer to a command changes a leader, only records do.
func (*World) refused(metadata.Command, metadata.Result) {}
