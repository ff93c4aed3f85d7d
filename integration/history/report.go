package history

// Exit codes of a report.
const (
	ExitOK    = 0
	ExitLost  = 20 // records were lost, wrong, or shown too early
	ExitOrder = 21 // records came twice or in another order, none was lost
)

// Verdict says what became of what was promised.
type Verdict string

// The verdicts. A topic is Allowed if it broke only what its settings do not promise; a whole report is OK then.
const (
	VerdictOK       Verdict = "ok"
	VerdictAllowed  Verdict = "allowed"
	VerdictViolated Verdict = "violated"
)

// Report is what Check found.
type Report struct {
	Verdict      Verdict       `json:"verdict"` // ok or violated
	Exit         int           `json:"exit"`
	Operations   int           `json:"operations"`
	Acknowledged int           `json:"acknowledged"` // records
	Anomalies    []Anomaly     `json:"anomalies"`    // by kind in the order of Kinds, then by key
	Topics       []TopicReport `json:"topics"`
}

// Anomaly is all that was found of one kind in one key. A cycle counts for the key of its first write that was seen.
type Anomaly struct {
	Kind     Kind      `json:"kind"`
	Topic    int       `json:"topic"` // index into Header.Topics
	Key      int       `json:"key"`   // index into Header.Keys
	Count    int       `json:"count"`
	Allowed  int       `json:"allowed"`         // of Count, by the settings of the topic
	Split    *Split    `json:"split,omitempty"` // of LostOnNode
	Examples []Example `json:"examples"`        // at most 10, those not allowed first
}

// Split says which of the values of their writers were lost on a node: those before the first that is there, after the last,
// or between, which is the worst.
type Split struct {
	Prefix  int `json:"prefix"`
	Middle  int `json:"middle"`
	Postfix int `json:"postfix"`
}

// Example is one finding: what proves it.
type Example struct {
	Ops     []int   `json:"ops,omitempty"` // indexes into History.Ops; a cycle leads from the last to the first
	Offsets []int64 `json:"offsets,omitempty"`
	Values  []int64 `json:"values,omitempty"`
	Nodes   []int   `json:"nodes,omitempty"`   // whose copies
	Allowed string  `json:"allowed,omitempty"` // the rule that allows it
	Text    string  `json:"text"`              // one sentence
}

// TopicReport is a topic, its settings, and what became of their promise.
type TopicReport struct {
	Topic
	Acknowledged int         `json:"acknowledged"` // records
	Verdict      Verdict     `json:"verdict"`
	Allowed      []Allowance `json:"allowed"`
	Because      string      `json:"because"` // one sentence
}

// Allowance is how many findings of a kind one rule allowed.
type Allowance struct {
	Kind  Kind   `json:"kind"`
	Count int    `json:"count"`
	Rule  string `json:"rule"`
}

// maxExamples bounds the examples of one anomaly.
const maxExamples = 10
