package history

import (
	"fmt"
	"strconv"
)

// waitsForCommit stands for acks=all.
const waitsForCommit = -1

// copiesAwaited is how many copies an acknowledgement of these acks waits for: a count, or waitsForCommit for all (also
// written -1). Nothing said is 0.
func copiesAwaited(acks string) (int, error) {
	if acks == "" {
		return 0, nil
	}
	if acks == "all" || acks == "-1" {
		return waitsForCommit, nil
	}
	n, err := strconv.Atoi(acks)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("no acks %q", acks)
	}
	return n, nil
}

// commits says whether what is acknowledged on the topic is committed: the producers or the topic ask for all, or for a
// count that is a commit too. Producers that ask for nothing get no answer, whatever the topic asks for.
func (t *Topic) commits() bool {
	if n, _ := copiesAwaited(t.Acks); n == 0 {
		return false
	}
	quorum := max(t.Replicas/2+1, min(t.MinISR, t.Replicas))
	for _, acks := range []string{t.Acks, t.MinAcks} {
		n, _ := copiesAwaited(acks)
		if n == waitsForCommit || n > 1 && n >= quorum {
			return true
		}
	}
	return false
}
