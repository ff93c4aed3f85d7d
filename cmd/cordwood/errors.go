package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
)

// errorNote is what we know of a Kafka error beyond its name: the exit code it leads to (0: other error), when this
// cluster answers it, and what to do.
type errorNote struct {
	exit            int
	meaning, remedy string
}

// errorNotes explains the errors that people meet.
var errorNotes = map[string]errorNote{
	"UNKNOWN_SERVER_ERROR":             {exitOther, "A node failed at something it did not expect.", "Look at the node's log at the time of the request."},
	"OFFSET_OUT_OF_RANGE":              {exitNotFound, "The offset asked for is below the start of the log or beyond its end.", "Start at beginning or end; records below the start were deleted by retention or DeleteRecords."},
	"CORRUPT_MESSAGE":                  {exitOther, "A batch did not match its checksum, size or magic number. Nothing was appended.", "A fault of the client or the network between; send it again."},
	"UNKNOWN_TOPIC_OR_PARTITION":       {exitNotFound, "There is no such topic, or it has no such partition.", "See cordwood topic list. A topic is not made by writing to it unless topics.auto_create is on."},
	"LEADER_NOT_AVAILABLE":             {exitUnreachable, "The partition has no leader at the moment.", "Ask again; if it lasts, see cordwood cluster health."},
	"NOT_LEADER_OR_FOLLOWER":           {exitUnreachable, "The node that was asked does not lead the partition any more.", "Clients ask for the new leader and go on by themselves."},
	"REQUEST_TIMED_OUT":                {exitUnreachable, "The answer was not certain within the request's time. What was asked may or may not have been done.", "Look whether it was done before asking again; see cordwood cluster health."},
	"MESSAGE_TOO_LARGE":                {exitRefused, "The batch is larger than the topic's max.message.bytes.", "Send smaller batches, or raise max.message.bytes of the topic."},
	"NETWORK_EXCEPTION":                {exitUnreachable, "The connection ended before an answer came.", "Ask again."},
	"COORDINATOR_NOT_AVAILABLE":        {exitUnreachable, "Groups and transactions have no coordinator.", "This release has neither; read with explicit partitions."},
	"NOT_COORDINATOR":                  {exitUnreachable, "The node does not coordinate the group or transaction.", "Clients find the coordinator by themselves."},
	"INVALID_TOPIC_EXCEPTION":          {exitRefused, "The name is no topic name: 1 to 249 letters, digits, dots, dashes and underscores, not . or ..", "Choose another name."},
	"RECORD_LIST_TOO_LARGE":            {exitRefused, "The batch is larger than a segment file may be.", "Send smaller batches, or raise segment.bytes of the topic."},
	"NOT_ENOUGH_REPLICAS":              {exitRefused, "Fewer replicas are in sync than min.insync.replicas asks for. Nothing was appended.", "See cordwood topic describe and start the nodes that are missing."},
	"NOT_ENOUGH_REPLICAS_AFTER_APPEND": {exitRefused, "The record was appended, but too few replicas were in sync to acknowledge it.", "It may still be read and may still be lost; see cordwood topic describe."},
	"INVALID_REQUIRED_ACKS":            {exitRefused, "acks is below -1, or above the number of the partition's replicas.", "Use 0, 1, all, or at most the number of replicas."},
	"ILLEGAL_GENERATION":               {exitOther, "The group has gone on to another generation.", "Clients join again by themselves."},
	"INVALID_TIMESTAMP":                {exitRefused, "A record's time is too far from the node's clock for the topic's settings.", "Check the clocks; see message.timestamp.before.max.ms and message.timestamp.after.max.ms."},
	"TOPIC_AUTHORIZATION_FAILED":       {exitUnauthorised, "You may not do that with the topic.", "Ask who runs the cluster."},
	"GROUP_AUTHORIZATION_FAILED":       {exitUnauthorised, "You may not do that with the group.", "Ask who runs the cluster."},
	"CLUSTER_AUTHORIZATION_FAILED":     {exitUnauthorised, "You may not do that with the cluster, or this listener does not take requests between nodes.", "Ask who runs the cluster."},
	"UNSUPPORTED_VERSION":              {exitOther, "The node does not know this version of the request.", "See the table of APIs in docs/protocol.md; use a client that asks for the versions first."},
	"TOPIC_ALREADY_EXISTS":             {exitExists, "There is a topic of that name.", "See cordwood topic describe."},
	"INVALID_PARTITIONS":               {exitRefused, "The number of partitions cannot be: it must be positive, and can only be raised.", "See cordwood topic describe for the number it has."},
	"INVALID_REPLICATION_FACTOR":       {exitRefused, "There are fewer nodes alive than replicas asked for.", "Ask for fewer replicas (-r), or start more nodes; see cordwood node list."},
	"INVALID_REPLICA_ASSIGNMENT":       {exitRefused, "The assignment names a node twice, or one that is not there.", "See cordwood node list."},
	"INVALID_CONFIG":                   {exitRefused, "The setting is unknown, its value is out of bounds, or this release does not support it yet.", "See cordwood topic describe -o wide for the settings there are."},
	"NOT_CONTROLLER":                   {exitUnreachable, "The node does not lead the metadata.", "Nodes pass such requests on by themselves; ask again while a new controller is elected."},
	"INVALID_REQUEST":                  {exitOther, "The request contradicts itself.", "Nothing was changed; the message says what stands against it."},
	"POLICY_VIOLATION":                 {exitRefused, "A rule of the cluster forbids it.", "The message says which."},
	"OUT_OF_ORDER_SEQUENCE_NUMBER":     {exitOther, "An idempotent producer's batch does not follow the one before it. Nothing was appended.", "A batch before it was lost on the way; clients start a new epoch or report it."},
	"DUPLICATE_SEQUENCE_NUMBER":        {exitOther, "The batch was appended before, too long ago to say where.", "Nothing is lost; the record is in the log."},
	"INVALID_PRODUCER_EPOCH":           {exitOther, "Another producer with the same identity has taken over.", "Stop the older one."},
	"KAFKA_STORAGE_ERROR":              {exitOther, "The node's disk is full, below storage.disk_stop, or failed.", "Look at the node's log; free space, or replace the disk."},
	"UNKNOWN_PRODUCER_ID":              {exitOther, "The producer's state has expired.", "Clients start again with a new id."},
	"FENCED_LEADER_EPOCH":              {exitUnreachable, "The client knows an older leader than the node.", "Clients ask for the new leader by themselves."},
	"UNKNOWN_LEADER_EPOCH":             {exitUnreachable, "The client knows a newer leader than the node.", "The node catches up in a moment; ask again."},
	"OFFSET_NOT_AVAILABLE":             {exitUnreachable, "A new leader does not know its high watermark yet.", "Ask again in a moment."},
	"LISTENER_NOT_FOUND":               {exitUnreachable, "The partition's leader has no address on the listener you came in on.", "Give that node a listener of the same name, or connect through another listener."},
	"STALE_BROKER_EPOCH":               {exitOther, "A node asked with the epoch of an earlier registration.", "It registers again by itself."},
	"BROKER_ID_NOT_REGISTERED":         {exitNotFound, "There is no node with that id.", "See cordwood node list."},
	"DUPLICATE_BROKER_REGISTRATION":    {exitExists, "Another node with that id is alive.", "Give every node a node.id of its own."},
	"INCONSISTENT_CLUSTER_ID":          {exitRefused, "The node, or its data, belongs to another cluster.", "Check the addresses in cluster.join and the node's data directory."},
	"UNKNOWN_TOPIC_ID":                 {exitNotFound, "The topic was deleted, or deleted and made again under the same name.", "Clients ask for the new id by themselves."},
	"INCONSISTENT_TOPIC_ID":            {exitNotFound, "The topic was made again under the same name.", "Clients ask for the new id by themselves."},
	"TOPIC_DELETION_DISABLED":          {exitRefused, "Topics cannot be deleted here.", ""},
	"ELECTION_NOT_NEEDED":              {exitExists, "The partition is led as asked already.", ""},
	"PREFERRED_LEADER_NOT_AVAILABLE":   {exitRefused, "The preferred replica is not in sync or its node is not alive.", "See cordwood topic describe."},
	"ELIGIBLE_LEADERS_NOT_AVAILABLE":   {exitRefused, "No replica is known to hold every acknowledged record.", "Start the nodes that hold replicas; see cordwood topic describe."},
	"REASSIGNMENT_IN_PROGRESS":         {exitExists, "Rule, durability or replicas of the partition are being changed already; one change at a time.", "Wait for its end, or take it back: cordwood partition move --cancel, or set the old value again."},
	"NO_REASSIGNMENT_IN_PROGRESS":      {exitNotFound, "The replicas of the partition are not being changed.", "See cordwood topic describe."},
	"FEATURE_UPDATE_FAILED":            {exitRefused, "The level was not raised.", "The message says which node does not have it."},
	"INVALID_UPDATE_VERSION":           {exitRefused, "The metadata level cannot be set to that, or is too low for what was asked.", "See cordwood cluster upgrade --dry-run."},
	"INVALID_RECORD":                   {exitRefused, "A record broke a rule of the topic or of its format. Nothing was appended.", "The message says which record."},
	"THROTTLING_QUOTA_EXCEEDED":        {exitRefused, "A quota is used up.", "Ask again later."},
	"UNSUPPORTED_COMPRESSION_TYPE":     {exitRefused, "The codec is unknown, or too new for the request's version.", "Use none, gzip, snappy, lz4 or zstd."},
}

type errorView struct {
	APIVersion  string `json:"apiVersion"`
	Name        string `json:"name"`
	Code        int16  `json:"code"`
	Retriable   bool   `json:"retriable"`
	Description string `json:"description"`
	Meaning     string `json:"meaning,omitempty"`
	Remedy      string `json:"remedy,omitempty"`
	ExitCode    int    `json:"exitCode"`
}

func (v *errorView) table(w io.Writer, _ bool) {
	again := "no"
	if v.Retriable {
		again = "yes"
	}
	fmt.Fprintf(w, "%s  code %d  retriable %s  exit code %d\n", v.Name, v.Code, again, v.ExitCode)
	if v.Meaning == "" {
		fmt.Fprintln(w, v.Description)
		return
	}
	fmt.Fprintln(w, v.Meaning)
	if v.Remedy != "" {
		fmt.Fprintln(w, "→ "+v.Remedy)
	}
}

func (v *errorView) names() []string { return []string{v.Name} }

type errorsView struct {
	APIVersion string      `json:"apiVersion"`
	Errors     []errorView `json:"errors"`
}

func (v *errorsView) table(w io.Writer, wide bool) {
	fmt.Fprint(w, "CODE\tNAME\tRETRIABLE\tEXIT")
	if wide {
		fmt.Fprint(w, "\tMEANING")
	}
	fmt.Fprintln(w)
	for _, e := range v.Errors {
		fmt.Fprintf(w, "%d\t%s\t%t\t%d", e.Code, e.Name, e.Retriable, e.ExitCode)
		if wide {
			fmt.Fprintf(w, "\t%s", e.said())
		}
		fmt.Fprintln(w)
	}
}

func (v *errorView) said() string {
	if v.Meaning != "" {
		return v.Meaning
	}
	return v.Description
}

func (v *errorsView) names() []string {
	var out []string
	for _, e := range v.Errors {
		out = append(out, e.Name)
	}
	return out
}

// kafkaName is an error's name as Kafka spells it today; the library keeps an older spelling of some.
func kafkaName(e *kerr.Error) string {
	if e == kerr.NotLeaderForPartition {
		return "NOT_LEADER_OR_FOLLOWER"
	}
	return e.Message
}

// errorName is the name for a code, "" for none.
func errorName(code int16) string {
	if e := kerr.TypedErrorForCode(code); e != nil {
		return kafkaName(e)
	}
	return ""
}

func explain(e *kerr.Error) errorView {
	name := kafkaName(e)
	note := errorNotes[name]
	v := errorView{APIVersion: apiVersion, Name: name, Code: e.Code, Retriable: e.Retriable, Description: e.Description,
		Meaning: note.meaning, Remedy: note.remedy, ExitCode: note.exit}
	if v.ExitCode == 0 {
		v.ExitCode = exitOther
	}
	return v
}

// lastErrorCode is beyond every code that Kafka has given out.
const lastErrorCode = 250

// knownErrors lists every error by code.
func knownErrors() []*kerr.Error {
	out := []*kerr.Error{kerr.UnknownServerError}
	for code := int16(1); code <= lastErrorCode; code++ {
		if e := kerr.TypedErrorForCode(code); e != nil && e.Code == code {
			out = append(out, e)
		}
	}
	return out
}

// findError looks up a name, in any case, or a code.
func findError(s string) (*kerr.Error, error) {
	all := knownErrors()
	code, notCode := strconv.ParseInt(s, 10, 16)
	for _, e := range all {
		if notCode == nil && int64(e.Code) == code || strings.EqualFold(kafkaName(e), s) || strings.EqualFold(e.Message, s) {
			return e, nil
		}
	}
	f := &failure{code: exitNotFound, err: errors.New("there is no Kafka error " + s), hint: "cordwood errors lists all"}
	i := slices.IndexFunc(all, func(e *kerr.Error) bool { return len(s) > 3 && strings.Contains(e.Message, strings.ToUpper(s)) })
	if i >= 0 {
		f.hint = "did you mean " + kafkaName(all[i]) + "?"
	}
	return nil, f
}

func newErrorsCommand(a *app) *cobra.Command {
	return &cobra.Command{Use: "errors [NAME|CODE]", Short: "Explain the errors of the Kafka protocol", Args: takes(0, 1, "at most one name or code"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			var names []string
			for _, e := range knownErrors() {
				names = append(names, kafkaName(e))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.output == "help" {
				return writeShape(a.out, &errorView{})
			}
			if len(args) == 0 {
				v := &errorsView{APIVersion: apiVersion}
				for _, e := range knownErrors() {
					v.Errors = append(v.Errors, explain(e))
				}
				return a.print(v)
			}
			e, err := findError(args[0])
			if err != nil {
				return err
			}
			v := explain(e)
			return a.print(&v)
		}}
}
