package main

import (
	"errors"
	"slices"
	"testing"
)

// written is what a faultless client leaves behind in a topic of three partitions.
func written(j Job) []Record {
	var got []Record
	next := map[int32]int64{}
	for i := range j.Count {
		r := j.Record(i)
		r.Partition = int32(i % 997 % 3)
		r.Offset = next[r.Partition]
		next[r.Partition]++
		r.Codec = j.Codec
		got = append(got, r)
	}
	return got
}

func TestTheComparisonFindsEveryKindOfFault(t *testing.T) {
	j := Job{Topic: "t", Codec: "lz4", Client: "c", Count: 3000}
	for name, c := range map[string]struct {
		spoil func([]Record) []Record
		want  string // the check that must miss; empty if all hold
	}{
		"nothing": {func(r []Record) []Record { return r }, ""},
		"partitions together": {func(r []Record) []Record {
			slices.SortStableFunc(r, func(a, b Record) int { return int(a.Partition - b.Partition) })
			return r
		}, ""},
		"last lost":            {func(r []Record) []Record { return r[:len(r)-1] }, "count"},
		"one lost":             {func(r []Record) []Record { return slices.Delete(r, 7, 8) }, "count"},
		"one twice":            {func(r []Record) []Record { return append(r, r[5]) }, "count"},
		"one instead of other": {func(r []Record) []Record { r[9] = r[6]; return r }, "count"},
		"offsets apart":        {func(r []Record) []Record { r[2999].Offset++; return r }, "order"},
		"exchanged": {func(r []Record) []Record {
			r[0].Value, r[3].Value, r[0].Key, r[3].Key, r[0].Headers, r[3].Headers = r[3].Value, r[0].Value, r[3].Key, r[0].Key, r[3].Headers, r[0].Headers
			return r
		}, "order"},
		"other key":     {func(r []Record) []Record { r[4].Key = "k"; return r }, "key"},
		"key elsewhere": {func(r []Record) []Record { r[997].Partition = 2; return r }, "key"},
		"cut value":     {func(r []Record) []Record { r[4].Value = r[4].Value[:20]; return r }, "value"},
		"foreign value": {func(r []Record) []Record { r[4].Value = "x"; return r }, "value"},
		"no header":     {func(r []Record) []Record { r[4].Headers = nil; return r }, "header"},
		"other header": {func(r []Record) []Record {
			r[4].Headers = map[string]string{headerClient: "c", headerNumber: "5"}
			return r
		}, "header"},
		"not the codec asked": {func(r []Record) []Record { r[4].Codec = "none"; return r }, "codec"},
	} {
		f := j.Compare("reader", c.spoil(written(j)), Traits{})
		if c.want == "" && len(f) > 0 {
			t.Errorf("%s: found %v", name, f)
		}
		if c.want != "" && f[c.want] == nil {
			t.Errorf("%s: %s holds, found %v", name, c.want, f)
		}
	}
}

func TestTheTableIsNotWellWithAMissAnAbsentClientOrNoCheck(t *testing.T) {
	well := Row{Name: "a", Codecs: []string{"none"}, Findings: map[string]Findings{"none": {}}}
	missed := Row{Name: "b", Codecs: []string{"none"}, Findings: map[string]Findings{"none": {"key": errFault}}}
	gone := Row{Name: "c", Absent: absent{"x"}}
	for name, c := range map[string]struct {
		table   Table
		forgive bool
		want    bool
	}{
		"well":            {Table{Rows: []Row{well}}, false, true},
		"miss":            {Table{Rows: []Row{well, missed}}, true, false},
		"absent":          {Table{Rows: []Row{well, gone}}, false, false},
		"absent forgiven": {Table{Rows: []Row{well, gone}}, true, true},
		"only absent":     {Table{Rows: []Row{gone}}, true, false},
		"tool missed":     {Table{Rows: []Row{well}, Tools: []ToolRow{{Tool: "t", Fault: errFault}}}, true, false},
		"tool absent":     {Table{Rows: []Row{well}, Tools: []ToolRow{{Tool: "t", Fault: absent{"x"}}}}, true, true},
		"broken":          {Table{Rows: []Row{well, {Name: "d", Absent: errFault}}}, true, false},
		"nothing":         {Table{}, true, false},
	} {
		if got := c.table.OK(c.forgive); got != c.want {
			t.Errorf("%s: %v, not %v", name, got, c.want)
		}
	}
}

var errFault = errors.New("fault")
