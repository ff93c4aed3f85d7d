package replica

import (
	"cordwood/fsm/metadata"
	"cordwood/fsm/partition"
)

// leastAcks reads a topic's min.acks as producers number acknowledgements.
func leastAcks(t *metadata.Topic) int32 {
	v, ok := t.Configs[metadata.SettingMinAcks]
	if !ok {
		return int32(partition.AcksNone)
	}
	n, _ := metadata.ParseAcks(v) // checked when it was set
	return int32(n)
}

// stronger is the stronger of two acknowledgements: none, then counts, then all.
func stronger(a, b int16) int16 {
	if a == partition.AcksAll || b == partition.AcksAll {
		return partition.AcksAll
	}
	return max(a, b)
}

// effective is what a producer that asks for acks waits for; raised says that the topic asks for more.
func (p *Partition) effective(acks int16) (wait int16, raised bool) {
	wait = stronger(acks, int16(p.minAcks.Load()))
	return wait, wait != acks
}
