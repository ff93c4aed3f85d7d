package logstore

import "fmt"

// RestartClass is what the cluster's metadata made of a node's restart. The values are those of fsm/metadata.
type RestartClass string

// The classes (docs/guarantees.md): what a node may have lost since it last ran.
const (
	Clean        RestartClass = "CLEAN"         // nothing: it was shut down in order and everything is as it was left
	ProcessCrash RestartClass = "PROCESS_CRASH" // nothing that was handed to the operating system
	LossyPower   RestartClass = "LOSSY_POWER"   // anything that was not synced
	LossyMedia   RestartClass = "LOSSY_MEDIA"   // anything
)

// Judgement says where a log is to end and whether it lost what it must not have lost.
type Judgement struct {
	End     int64  // log end offset after Open
	Cut     bool   // bytes go
	Lossy   bool   // what was not synced may be gone
	Damaged bool   // the log held, or should have held, more than this kind of restart can take from it
	Reason  string // of Damaged or Cut, for people
}

// Judge applies the table of restart classes to what was found. disk says that the topic's records count only when they
// are on stable storage. It changes nothing.
func (f *Found) Judge(class RestartClass, disk bool) Judgement {
	j := Judgement{End: max(f.end, f.state.start), Cut: f.kind != breakNone, Reason: f.where, Lossy: class == LossyPower || class == LossyMedia}
	j.Damaged, j.Reason = f.damaged(class, disk)
	if !j.Damaged && j.Cut {
		j.Reason = f.where
	}
	return j
}

// surelyCommitted is the high watermark that the log claims. After a loss it speaks of nothing that was not synced: a log
// of a version whose cuts were not durable, or a disk that lies, may hold other records there than it was claimed of.
func (f *Found) surelyCommitted(j Judgement) int64 {
	if j.Lossy {
		return min(f.hints.hw, f.hints.flushed)
	}
	return f.hints.hw
}

func (f *Found) damaged(class RestartClass, disk bool) (bool, string) {
	switch class {
	case Clean:
		if f.kind != breakNone {
			return true, f.where
		}
		if !f.clean {
			return true, "ends or sizes are not those of the clean shutdown"
		}
	case ProcessCrash:
		if f.kind != breakNone && f.kind != breakZeros && f.kind != breakTorn {
			return true, f.where
		}
		if f.kind != breakNone && f.at < len(f.segs)-1 {
			return true, f.where + ", and segments follow"
		}
		if f.end < f.hints.flushed {
			return true, fmt.Sprintf("log ends at %d, below its recovery point %d", f.end, f.hints.flushed)
		}
		if f.end < f.hints.hw {
			return true, fmt.Sprintf("log ends at %d, below its high watermark %d", f.end, f.hints.hw)
		}
	case LossyPower:
		if f.kind == breakGap || f.kind != breakNone && f.at < len(f.segs)-1 {
			return true, f.where + ", and segments follow"
		}
		if disk && f.end < f.hints.flushed {
			return true, fmt.Sprintf("log ends at %d, below its flushed checkpoint %d", f.end, f.hints.flushed)
		}
	case LossyMedia: // untrusted everywhere as it is
	}
	return false, ""
}
