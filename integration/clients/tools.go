package main

// ToolRow is what came out for one use of one of Kafka's tools.
type ToolRow struct {
	Tool, Did string
	Absent    bool
	Fault     error
}
