package history

import "time"

// Nearly all lines of a long history are operations, and encoding/json takes most of the time that such a one is read in. So
// they are read here as Writer writes them: no spaces, no escapes, no field twice. Whatever is otherwise is left to
// encoding/json, which alone says what is wrong with a line.

// opLine reads the line of an operation, or says that it is not as Writer writes them.
func opLine(line []byte) (op Op, ok bool) {
	s := &scanner{b: line}
	ok = s.skip(`{"op":`) && s.op(&op) && s.skip("}") && len(s.b) == 0
	return op, ok
}

// scanner reads JSON from the front of b. What its methods leave in b after they returned false is undefined.
type scanner struct {
	b    []byte
	seen []Seen // of the present poll
	ints []int
	mops []Mop
}

func (s *scanner) skip(text string) bool {
	if len(s.b) < len(text) || string(s.b[:len(text)]) != text {
		return false
	}
	s.b = s.b[len(text):]
	return true
}

// fields reads an object: field is called behind each name, and gives false for a name it does not know.
func (s *scanner) fields(field func(name string) bool) bool {
	if !s.skip("{") {
		return false
	}
	if s.skip("}") {
		return true
	}
	for {
		name, ok := s.text()
		if !ok || !s.skip(":") || !field(string(name)) {
			return false
		}
		if s.skip("}") {
			return true
		}
		if !s.skip(",") {
			return false
		}
	}
}

// list reads an array, whose elements one reads.
func (s *scanner) list(one func() bool) bool {
	if !s.skip("[") {
		return false
	}
	if s.skip("]") {
		return true
	}
	for {
		if !one() {
			return false
		}
		if s.skip("]") {
			return true
		}
		if !s.skip(",") {
			return false
		}
	}
}

// text reads a string of printable ASCII without escapes. It is valid as long as the line.
func (s *scanner) text() ([]byte, bool) {
	if !s.skip(`"`) {
		return nil, false
	}
	for i, c := range s.b {
		switch {
		case c == '"':
			text := s.b[:i]
			s.b = s.b[i+1:]
			return text, true
		case c < 0x20 || c >= 0x7f || c == '\\':
			return nil, false
		}
	}
	return nil, false
}

// number reads an integer of at most 18 digits.
func (s *scanner) number() (int64, bool) {
	negative := s.skip("-")
	i, n := 0, int64(0)
	for i < len(s.b) && s.b[i] >= '0' && s.b[i] <= '9' {
		n = n*10 + int64(s.b[i]-'0')
		if i++; i > 18 {
			return 0, false
		}
	}
	if i == 0 || i > 1 && s.b[0] == '0' {
		return 0, false
	}
	s.b = s.b[i:]
	if negative {
		n = -n
	}
	return n, true
}

func (s *scanner) truth() (value, ok bool) {
	if s.skip("true") {
		return true, true
	}
	return false, s.skip("false")
}

func (s *scanner) numbers() ([]int, bool) {
	s.ints = s.ints[:0]
	ok := s.list(func() bool {
		n, ok := s.number()
		s.ints = append(s.ints, int(n))
		return ok
	})
	return append([]int{}, s.ints...), ok
}

func (s *scanner) op(op *Op) bool {
	had := 0
	return s.fields(func(name string) (ok bool) {
		field := 0
		var n int64
		var text []byte
		switch name {
		case "p":
			field = 1 << 0
			n, ok = s.number()
			op.Process = int(n)
		case "type":
			field = 1 << 1
			text, ok = s.text()
			op.Type = known(text, OK, Fail, Info)
		case "f":
			field = 1 << 2
			text, ok = s.text()
			op.F = known(text, Send, Poll, Txn, Assign, Subscribe, Crash)
		case "start":
			field = 1 << 3
			n, ok = s.number()
			op.Start = time.Duration(n)
		case "end":
			field = 1 << 4
			n, ok = s.number()
			op.End = time.Duration(n)
		case "mops":
			field = 1 << 5
			s.mops = s.mops[:0]
			ok = s.list(s.mop)
			op.Mops = append([]Mop{}, s.mops...)
		case "keys":
			field = 1 << 6
			op.Keys, ok = s.numbers()
		case "moved":
			field = 1 << 7
			op.Moved, ok = s.numbers()
		case "final":
			field = 1 << 8
			op.Final, ok = s.truth()
		case "error":
			field = 1 << 9
			text, ok = s.text()
			op.Error = string(text)
		case "node":
			field = 1 << 10
			n, ok = s.number()
			op.Node = int(n)
		case "repeats":
			field = 1 << 11
			op.Repeats, ok = s.truth()
		case "client":
			field = 1 << 12
			text, ok = s.text()
			op.Client = string(text)
		}
		ok = ok && had&field == 0
		had |= field
		return ok
	})
}

// known gives text as one of the values, without a copy, or as it is.
func known[T ~string](text []byte, values ...T) T {
	for _, v := range values {
		if string(text) == string(v) {
			return v
		}
	}
	return T(text)
}

func (s *scanner) mop() bool {
	var m Mop
	had := 0
	ok := s.fields(func(name string) (ok bool) {
		field := 0
		switch name {
		case "send":
			field = 1
			var r Seen
			ok = s.record(&r)
			m.Send = &Sent{r.Key, r.Value, r.Offset}
		case "poll":
			field = 2
			s.seen = s.seen[:0]
			ok = s.list(func() bool {
				s.seen = append(s.seen, Seen{})
				return s.record(&s.seen[len(s.seen)-1])
			})
			m.Poll = append([]Seen{}, s.seen...)
		}
		ok = ok && had&field == 0
		had |= field
		return ok
	})
	s.mops = append(s.mops, m)
	return ok
}

func (s *scanner) record(r *Seen) bool {
	// Always in this order, since there are many.
	var n int64
	ok := s.skip(`{"k":`)
	if ok {
		n, ok = s.number()
		r.Key = int(n)
	}
	if ok = ok && s.skip(`,"v":`); ok {
		r.Value, ok = s.number()
	}
	if ok = ok && s.skip(`,"o":`); ok {
		r.Offset, ok = s.number()
	}
	return ok && s.skip("}")
}
