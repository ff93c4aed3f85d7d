// Package replica runs this node's partition replicas: it appends what producers send, serves fetches, fetches from
// leaders, tells the controller what the in-sync sets should be, and brings everything to what the metadata says.
// Decisions are fsm/partition's, bytes are logstore's; this package owns goroutines, locks and waiting.
//
// # How a broker wires it
//
//	dir, _ := logstore.OpenDir(fsys, path, logstore.DirOptions{…, OnDamage: func(l *logstore.Log, why string) { m.OnDamage(l, why) }})
//	found, _ := dir.Inspect(ctx, workers, progress)            // changes nothing
//	m, _ := replica.NewManager(replica.Options{NodeID: …, Dir: dir, Controller: …, Dial: …, Config: …})
//	// register; the answer is this process's broker epoch and restart class; replay metadata to that index
//	err := m.Start(ctx, image, replica.Registration{BrokerEpoch: …, Class: …}, found)
//	dir.Registered()
//	for each published delta: m.Apply(image, delta)            // one goroutine, in order, from the image of Start on
//	m.Shutdown(ctx)                                            // after the controller was asked to drain this node
//	m.Close()
//	dir.CloseClean(ctx)
//
// Manager has the methods of api.Replicas. Options.Dial is a few lines over transport/rpc: RPC adapts its connection. The
// broker's session loop sends DrainSession with every heartbeat, and one at once when SessionChanged is signalled, and
// answers wantReports with Reports. Options.Controller sends AlterPartition to the active controller.
//
// # Goroutines
//
// One fetcher for every leader node that something is followed from, one sender of ISR proposals, one loop for what time
// decides and one for the disk's duties; and as many as eight workers that bring logs to disk, while there are any to
// bring. Waiting is done by whoever waits: a connection's writer in Wait. An idle partition has no goroutine, no timer
// and no byte on the wire.
//
// # Locks
//
// Manager.acting, under which records are acted on, then Partition.writing, then Partition.mu, then leaf locks
// (Manager.mu, link.mu, fetcher.mu, flushPool.mu, pendingProduce.mu, queues), of which no two are held together but
// Manager.mu around fetcher.mu. writing serialises what changes a log and is held over its I/O, but not over the fsyncs
// that acknowledgements wait for; mu is not held over any.
//
// # Copies that count from disk
//
// What is appended on such a topic, at the leader or a follower, puts the partition into the flush pool; batches that come
// while an fsync runs share the next one. When it is done the leader counts itself, a follower tells its leader in an
// Ack (it has asked for the next records long before), and a replica that owes a report for an election makes it.
package replica
