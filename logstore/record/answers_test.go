package record

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const answers = "../../integration/testdata/kafka-4.4.0/answers"

// step is one recorded question and answer.
type step struct {
	Name    string
	API     string
	Version int16
	Request string
	Answer  struct {
		Silent bool
		Topics []struct {
			Topic      string
			Partitions []struct {
				Partition      int32
				ErrorCode      int16
				ErrorMessage   *string
				ErrorRecords   []struct{ RelativeOffset int32 }
				LogStartOffset int64
			}
		}
	}
}

func (s *step) produce(t testing.TB) *kmsg.ProduceRequest {
	b, err := hex.DecodeString(s.Request)
	require.NoError(t, err)
	req := kmsg.NewPtrProduceRequest()
	req.Version = s.Version
	b = b[8:] // key, version, correlation id
	b = b[2+binary.BigEndian.Uint16(b):]
	if req.IsFlexible() {
		b = b[1:] // no tags
	}
	require.NoError(t, req.ReadFrom(b), s.Name)
	return req
}

func recorded(t testing.TB, scenario string) (steps []step) {
	b, err := os.ReadFile(filepath.Join(answers, scenario+".json"))
	require.NoError(t, err)
	var raw []json.RawMessage
	require.NoError(t, json.Unmarshal(b, &raw))
	for _, r := range raw {
		var kind struct{ API string }
		require.NoError(t, json.Unmarshal(r, &kind))
		if kind.API == "Produce" {
			var s step
			require.NoError(t, json.Unmarshal(r, &s))
			steps = append(steps, s)
		}
	}
	return steps
}

func lenientRules() ProduceRules {
	return ProduceRules{
		MaxBytes: 1 << 20, SegmentBytes: 1 << 30, Now: 1795975010000,
		BeforeMaxMS: math.MaxInt64, AfterMaxMS: 3600000, RequestVersion: 13,
	}
}

func codeOf(err error) int16 {
	for sentinel, code := range map[error]int16{
		nil: 0, ErrCorruptBatch: 2, ErrBatchTooLarge: 10, ErrSegmentTooSmall: 18, ErrInvalidTimestamp: 32,
		ErrInvalidTxnState: 48, ErrUnsupportedCodec: 76, ErrInvalidRecord: 87,
	} {
		if errors.Is(err, sentinel) {
			return code
		}
	}
	return -1
}

// TestRefusalsAreKafkas runs every batch that a real Kafka was sent and compares the verdict: code, log start offset,
// sentence, records named. Where Kafka gave up (-1, or no answer at all) a code that says why is asked for.
func TestRefusalsAreKafkas(t *testing.T) {
	judged, refused, bettered := 0, 0, 0
	for _, scenario := range []string{
		"04-produce", "04-produce-faults", "04-produce-attributes", "04-produce-times", "04-produce-size", "04-produce-acks",
		"04-produce-by-id", "05-idempotence", "05-idempotence-requests",
	} {
		for _, s := range recorded(t, scenario) {
			req := s.produce(t)
			if s.Answer.Silent && strings.HasPrefix(s.Name, "null records") {
				_, err := ValidateProduce(req.Topics[0].Partitions[0].Records, lenientRules())
				require.EqualValues(t, 87, codeOf(err), s.Name)
				bettered++
			}
			if s.Answer.Silent || len(req.Topics) != 1 || len(req.Topics[0].Partitions) != 1 || len(s.Answer.Topics) != 1 {
				continue
			}
			want := s.Answer.Topics[0].Partitions[0]
			rules := lenientRules()
			rules.RequestVersion = s.Version
			rules.Transactional = req.TransactionID != nil
			rules.LogAppendTime = strings.HasSuffix(s.Answer.Topics[0].Topic, "append-time")
			if scenario == "04-produce-size" {
				rules.MaxBytes = 200
			}
			h, err := ValidateProduce(req.Topics[0].Partitions[0].Records, rules)
			name := scenario + ": " + s.Name
			judged++
			switch want.ErrorCode {
			case 53: // decided by rights, before the batch is looked at
				require.Error(t, err, name)
				continue
			case -1:
				require.Contains(t, []int16{76, 87}, codeOf(err), name)
				bettered++
				continue
			case 2, 10, 18, 32, 76, 87:
				refused++
			default: // fine, or refused by what the partition knows
				require.NoError(t, err, name)
				require.NoError(t, Verify(&h, req.Topics[0].Partitions[0].Records), name)
				continue
			}
			require.Equal(t, want.ErrorCode, codeOf(err), "%s: %v", name, err)
			var refusal *BatchError
			require.ErrorAs(t, err, &refusal, name)
			require.NotEmpty(t, refusal.Message, name)
			require.Equal(t, want.LogStartOffset >= 0, refusal.LogStart, name)
			if s.Version < 8 {
				continue // no room for sentences and records
			}
			require.Equal(t, want.ErrorMessage == nil, refusal.Silent, name)
			require.Len(t, refusal.Records, len(want.ErrorRecords), name)
			for i, r := range want.ErrorRecords {
				require.Equal(t, r.RelativeOffset, refusal.Records[i].Index, name)
			}
		}
	}
	t.Logf("%d batches, %d refused as Kafka does, %d better", judged, refused, bettered)
	require.Greater(t, refused, 35)
	require.Greater(t, bettered, 7)
}
