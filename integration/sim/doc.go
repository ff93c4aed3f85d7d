// Package sim runs the real decisions (fsm/metadata, fsm/partition), the real replicas (cluster/replica, by steps) and the
// real logs (logstore) of several nodes in one goroutine: virtual time, a network that loses, doubles, delays and reorders,
// processes that are killed, disks that forget, tear and rot, changes of rule, durability, minimum and replicas under way.
// One seed gives one schedule.
//
// A shadow keeps everything that was committed and acknowledged and is compared after every step with what the replicas
// hold, by the invariants of the protocol (docs/ack-paths.md). After the faults are healed, the partition must be led, all
// logs must be equal and all replicas certified within a bound.
//
// Beside random schedules there are written ones (script.go): the adversarial scenarios of the protocol, one test each
// (TestS01 to TestS55; those of transactions are not among them).
package sim
