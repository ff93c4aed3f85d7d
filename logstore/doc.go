// Package logstore keeps partition logs on disk in Apache Kafka's layout (docs/formats.md): segments of record batches
// with sparse indexes, leader epochs, producer state and checkpoints, under one log directory per node.
//
// A Dir is a log directory and a Log one partition in it. Opening is done in steps, because bytes may be cut only after
// the cluster's metadata has said what they are worth: OpenDir takes the lock and writes down a new incarnation,
// Dir.Inspect reads every partition and changes nothing, Found.Judge says what a kind of restart makes of the finding,
// Found.Open carries it out.
//
// The package starts no goroutine, keeps no copy of record bytes and never acknowledges a byte it has not handed to the
// operating system. What it does not know: brokers, topics' settings by name, replication. Every disk call goes through
// logstore/vfs.
package logstore
