//go:build !mutants

package mutant

// The checks that stand. Each is dropped when its constant is true, which it never is here: the compiler leaves nothing of
// it.
const (
	NoELR              = false // replicas that leave the ISR below its minimum are forgotten
	RuleNoBoth         = false // the ISR rule is not kept during the change to quorum
	NoMinISR           = false // an ISR below its minimum commits
	NoMaximal          = false // proposed members of the ISR do not count before their record
	AmnesiacVotes      = false // a replica that may have lost records votes
	RuleDirect         = false // a rule is changed in one record
	NoJoint            = false // a move under the quorum rule takes one record
	RuleEarly          = false // a change of rule is finished unproven
	DivergeCounts      = false // a diverging fetch counts
	NoLESO             = false // a replica joins the ISR below the start of the office
	NoFence            = false // an election needs no promise: reports of older epochs count
	MaxLEO             = false // the longest log wins, whatever its epoch
	NoBarrier          = false // records of older epochs commit by themselves
	NoLeaderBE         = false // a process leads on the grant of the one before
	PendAnyUpdate      = false // any record settles proposals
	CertEarly          = false // a replica is certified before it has caught up
	StaleResp          = false // a late answer is applied
	NoAlterBE          = false // an ISR takes members by id, whatever process
	NoMarker           = false // a new leader writes no marker, and does without
	NoRegBarrier       = false // a restarted node acts on metadata from before its registration
	FinalEarly         = false // a move is finished unproven
	CertAtHW           = false // a replica is certified at the high watermark
	NoObservers        = false // a move enters joint with empty newcomers
	WLow               = false // one copy fewer commits
	DupEarly           = false // a duplicate is acknowledged before it is committed
	ElectFenced        = false // a fenced replica is elected
	MinKeepELR         = false // a lower minimum leaves the ELR
	RejClears          = false // a refusal settles proposals
	DurDirect          = false // durability rises in one record
	ProofByHW          = false // the high watermark proves a change
	FinClearOnly       = false // a finished move keeps the epoch and forgets positions
	ElectKeepsELR      = false // an election by reports keeps the ELR
	RejIneligible      = false // a refusal as ineligible settles proposals
	FinNoBump          = false // a finished move keeps the epoch
	LastLeaderAnyTrust = false // the last leader of a disk topic comes back after a power loss
	DurNoBump          = false // the change to disk keeps the epoch
	FinReset           = false // a finished change of rule takes the certificates of those that lag
	NoStartEp          = false // an emptied log forgets its last epoch
	UnsafeCertAll      = false // a flagged election certifies everybody
	RuleNoMarker       = false // a change to quorum writes no marker where nothing is open
	NoVoterBE          = false // reports of processes that are gone count
	OldEpochFetch      = false // a fetch of an older epoch counts
	DurEarly           = false // a change of durability is finished unproven
	ZeroCopyNoGate     = false // bytes under an unsent answer are rewritten
	TruncNoDirSync     = false // a cut is not made durable
	ServeUnflushed     = false // consumers read up to the log end
)

// Faults that are planted for whole clusters, to see them convicted from outside.
const (
	AckEarly      = false // the leader alone acknowledges for all
	CountsSent    = false // a record counts as copied when it is sent
	TruncToHW     = false // a follower cuts its log to its high watermark in each epoch
	OffByOne      = false // after a failover producers are told the offset behind their record
	LostProducers = false // a new leader knows no producers
	NoDedup       = false // what a producer repeats is appended again
	Unclean       = false // where nobody in sync is alive, any replica leads
	DiskEarly     = false // copies count from disk before they are there
)
