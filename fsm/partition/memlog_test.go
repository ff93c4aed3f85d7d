package partition

import (
	"slices"
)

// memLog is a log without bytes: what the decisions see of one, and what their effects do to it.
type memLog struct {
	start      int64
	startEpoch int32
	recs       []rec // offsets from start on
	cache      []EpochEnd
	hw         int64
	flushed    int64
	loss       int32
}

// rec is one record: the epoch that wrote it and a name that no other record has.
type rec struct {
	epoch int32
	name  int
}

func newMemLog(epochs ...int32) *memLog {
	l := &memLog{startEpoch: -1}
	for i, e := range epochs {
		l.append(rec{e, 1000*int(e) + i})
	}
	l.flushed = l.EndOffset()
	return l
}

func (l *memLog) StartOffset() int64    { return l.start }
func (l *memLog) Start() (int64, int32) { return l.start, l.startEpoch }
func (l *memLog) EndOffset() int64      { return l.start + int64(len(l.recs)) }
func (l *memLog) FlushedOffset() int64  { return l.flushed }
func (l *memLog) HighWatermark() int64  { return l.hw }
func (l *memLog) AppliedLoss() int32    { return l.loss }
func (l *memLog) EpochAt(o int64) int32 {
	if o < l.start || o >= l.EndOffset() {
		return -1
	}
	return l.recs[o-l.start].epoch
}
func (l *memLog) LastEpoch() int32 {
	if len(l.cache) > 0 {
		return l.cache[len(l.cache)-1].Epoch
	}
	return l.startEpoch
}
func (l *memLog) EpochEnd(asked int32) (int32, int64) {
	for i := len(l.cache) - 1; i >= 0; i-- {
		if l.cache[i].Epoch <= asked {
			if i+1 < len(l.cache) {
				return l.cache[i].Epoch, l.cache[i+1].End
			}
			return l.cache[i].Epoch, l.EndOffset()
		}
	}
	if l.startEpoch >= 0 && l.startEpoch <= asked {
		return l.startEpoch, l.start
	}
	return -1, -1
}

// office enters a leader epoch; End is its start here.
func (l *memLog) office(epoch int32) {
	l.cut(l.EndOffset())
	if n := len(l.cache); n == 0 || l.cache[n-1].Epoch < epoch {
		l.cache = append(l.cache, EpochEnd{epoch, l.EndOffset()})
	}
}

func (l *memLog) append(r rec) {
	end := l.EndOffset()
	l.cache = slices.DeleteFunc(l.cache, func(e EpochEnd) bool { return e.End >= end && e.Epoch != r.epoch })
	if n := len(l.cache); n == 0 || l.cache[n-1].Epoch != r.epoch {
		l.cache = append(l.cache, EpochEnd{r.epoch, end})
	}
	l.recs = append(l.recs, r)
}

func (l *memLog) cut(end int64) {
	l.recs = l.recs[:end-l.start]
	l.flushed = min(l.flushed, end)
	l.cache = slices.DeleteFunc(l.cache, func(e EpochEnd) bool { return e.End >= end })
}

func (l *memLog) reset(start int64, epoch int32) {
	loss := l.loss
	*l = memLog{start: start, startEpoch: epoch, hw: start, flushed: start, loss: loss}
}

func (l *memLog) raise(start int64) {
	if start <= l.start {
		return
	}
	l.startEpoch = l.EpochAt(start - 1)
	l.recs = slices.Clone(l.recs[start-l.start:])
	l.start, l.flushed = start, max(l.flushed, start)
	for len(l.cache) > 1 && l.cache[1].End <= start {
		l.cache = l.cache[1:]
	}
	if len(l.cache) > 0 && l.cache[0].End < start {
		l.cache[0].End = start
	}
}

// marker is the epoch-start marker of an epoch.
func marker(epoch int32) rec { return rec{epoch, -int(epoch) - 1} }
