package broker

import (
	"cordwood/fsm/metadata"
	"cordwood/logstore/record"
)

// sureToLead says that this node led a partition in an epoch when the controller last answered it, and that no controller can
// have fenced it since. It judges by the metadata replayed here, not by what the replicas have acted on so far: that waits
// for disks. Any goroutine may ask.
func (b *Broker) sureToLead(id record.PartitionID, epoch int32) bool {
	index, ok := b.session.lives(b.cfg.Cluster.SessionTimeout.Std() - b.cfg.Raft.HeartbeatTimeout.Std())
	return ok && ledAsOf(index, b.controller.Image(), b.cfg.Node.ID, id, epoch)
}

// ledAsOf says that an image is of an index or later, and that node leads the partition in epoch there.
func ledAsOf(index uint64, image *metadata.Image, node int32, id record.PartitionID, epoch int32) bool {
	p := image.Partition(id)
	return image.Index() >= index && p != nil && p.Leader == node && p.LeaderEpoch == epoch
}
