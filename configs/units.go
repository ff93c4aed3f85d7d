package configs

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time that is written with its unit. A bare number is refused: nobody can tell its unit.
type Duration time.Duration

// ByteSize is a number of bytes, written bare or with a binary unit.
type ByteSize int64

// day is the largest unit of Duration.
const day = 24 * time.Hour

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// ParseDuration reads Go's notation with days in front: "500ms", "7d", "1d12h". Never negative.
func ParseDuration(s string) (Duration, error) {
	bad := func(hint string) (Duration, error) { return 0, fmt.Errorf("%q is not a duration; write %s", s, hint) }
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return bad(fmt.Sprintf("the unit as well: %dms, %ds", n, n))
	}
	rest, total := s, time.Duration(0)
	if i := strings.IndexByte(s, 'd'); i > 0 {
		n, err := strconv.ParseUint(s[:i], 10, 31)
		if err != nil || n > uint64(math.MaxInt64/int64(day)) {
			return bad("500ms, 30s, 5m, 12h or 7d")
		}
		total, rest = time.Duration(n)*day, s[i+1:]
	}
	if rest != "" || s == "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 || total > math.MaxInt64-d {
			return bad("500ms, 30s, 5m, 12h or 7d")
		}
		total += d
	}
	return Duration(total), nil
}

// String writes what ParseDuration reads, in the largest units that fit.
func (d Duration) String() string {
	t := time.Duration(d)
	switch {
	case t < 0:
		return "-1"
	case t == 0:
		return "0s"
	case t%day == 0:
		return strconv.FormatInt(int64(t/day), 10) + "d"
	}
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// ParseByteSize reads "1GiB", "64KiB", "512B" or a bare number of bytes. Never negative.
func ParseByteSize(s string) (ByteSize, error) {
	num, unit := s, int64(1)
	for _, u := range sizeUnits {
		if v, ok := strings.CutSuffix(s, u.name); ok {
			num, unit = strings.TrimSpace(v), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(num, 10, 63)
	if err == nil && int64(n) > math.MaxInt64/unit {
		err = errors.New("too large")
	}
	if err != nil {
		return 0, fmt.Errorf("%q is not a size; write %s", s, sizeHint(s))
	}
	return ByteSize(int64(n) * unit), nil
}

// sizeHint guesses what was meant by a size with a decimal or wrongly cased unit.
func sizeHint(s string) string {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
	unit := strings.ToLower(strings.TrimSpace(s[len(digits):]))
	n, err := strconv.ParseUint(digits, 10, 31)
	if err == nil && unit != "" {
		for _, u := range sizeUnits[:4] {
			if strings.HasPrefix(unit, strings.ToLower(u.name[:1])) && int64(n) <= math.MaxInt64/u.bytes {
				return fmt.Sprintf("%d%s or %d", n, u.name, int64(n)*u.bytes)
			}
		}
	}
	return "1GiB or 1073741824"
}

// String writes what ParseByteSize reads, in the largest unit that divides it.
func (b ByteSize) String() string {
	for _, u := range sizeUnits[:4] {
		if b > 0 && int64(b)%u.bytes == 0 {
			return strconv.FormatInt(int64(b)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
