//go:build !librdkafka || !cgo

package workload

// linked is librdkafka, which this binary is built without.
var linked library
