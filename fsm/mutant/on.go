//go:build mutants

package mutant

// The checks, dropped one at a time by Set.
var (
	NoELR              bool // replicas that leave the ISR below its minimum are forgotten
	RuleNoBoth         bool // the ISR rule is not kept during the change to quorum
	NoMinISR           bool // an ISR below its minimum commits
	NoMaximal          bool // proposed members of the ISR do not count before their record
	AmnesiacVotes      bool // a replica that may have lost records votes
	RuleDirect         bool // a rule is changed in one record
	NoJoint            bool // a move under the quorum rule takes one record
	RuleEarly          bool // a change of rule is finished unproven
	DivergeCounts      bool // a diverging fetch counts
	NoLESO             bool // a replica joins the ISR below the start of the office
	NoFence            bool // an election needs no promise: reports of older epochs count
	MaxLEO             bool // the longest log wins, whatever its epoch
	NoBarrier          bool // records of older epochs commit by themselves
	NoLeaderBE         bool // a process leads on the grant of the one before
	PendAnyUpdate      bool // any record settles proposals
	CertEarly          bool // a replica is certified before it has caught up
	StaleResp          bool // a late answer is applied
	NoAlterBE          bool // an ISR takes members by id, whatever process
	NoMarker           bool // a new leader writes no marker, and does without
	NoRegBarrier       bool // a restarted node acts on metadata from before its registration
	FinalEarly         bool // a move is finished unproven
	CertAtHW           bool // a replica is certified at the high watermark
	NoObservers        bool // a move enters joint with empty newcomers
	WLow               bool // one copy fewer commits
	DupEarly           bool // a duplicate is acknowledged before it is committed
	ElectFenced        bool // a fenced replica is elected
	MinKeepELR         bool // a lower minimum leaves the ELR
	RejClears          bool // a refusal settles proposals
	DurDirect          bool // durability rises in one record
	ProofByHW          bool // the high watermark proves a change
	FinClearOnly       bool // a finished move keeps the epoch and forgets positions
	ElectKeepsELR      bool // an election by reports keeps the ELR
	RejIneligible      bool // a refusal as ineligible settles proposals
	FinNoBump          bool // a finished move keeps the epoch
	LastLeaderAnyTrust bool // the last leader of a disk topic comes back after a power loss
	DurNoBump          bool // the change to disk keeps the epoch
	FinReset           bool // a finished change of rule takes the certificates of those that lag
	NoStartEp          bool // an emptied log forgets its last epoch
	UnsafeCertAll      bool // a flagged election certifies everybody
	RuleNoMarker       bool // a change to quorum writes no marker where nothing is open
	NoVoterBE          bool // reports of processes that are gone count
	OldEpochFetch      bool // a fetch of an older epoch counts
	DurEarly           bool // a change of durability is finished unproven
	ZeroCopyNoGate     bool // bytes under an unsent answer are rewritten
	TruncNoDirSync     bool // a cut is not made durable
	ServeUnflushed     bool // consumers read up to the log end
)

// Faults that are planted for whole clusters.
var (
	AckEarly      bool // the leader alone acknowledges for all
	CountsSent    bool // a record counts as copied when it is sent
	TruncToHW     bool // a follower cuts its log to its high watermark in each epoch
	OffByOne      bool // after a failover producers are told the offset behind their record
	LostProducers bool // a new leader knows no producers
	NoDedup       bool // what a producer repeats is appended again
	Unclean       bool // where nobody in sync is alive, any replica leads
	DiskEarly     bool // copies count from disk before they are there
)
