package main

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A Step is one question and its normalised answer.
type Step struct {
	Name    string `json:"name"`
	API     string `json:"api,omitempty"`
	Version int16  `json:"version"`
	Request string `json:"request,omitempty"` // the frame without its size, hex; long ones are cut
	Answer  any    `json:"answer"`            // decoded and normalised, or {"closed":true}, {"silent":true}
}

type scenario func(r *run)

// scenarios holds every scenario by name; files register theirs in init.
var scenarios = map[string]scenario{}

type run struct {
	addr  string
	name  string
	steps []Step
	conn  net.Conn
	corr  int32
	alias []aliasOf
	rules map[string]*fieldRule
	wait  time.Duration
	extra map[string]bool // settings that the server describes beyond Kafka's: left out of the answers
}

// A fieldRule says how this scenario's answers show the fields of one name.
type fieldRule struct {
	drop, unordered, number bool
	token                   string
	seen                    int
}

type aliasOf struct {
	field string // only in fields of this name; "" = any
	value string
	token string
}

func newRun(addr, name string) *run { return &run{addr: addr, name: name, wait: 10 * time.Second} }

func (r *run) play(s scenario) {
	defer func() {
		if e := recover(); e != nil {
			r.steps = append(r.steps, Step{Name: "scenario stopped", Answer: fmt.Sprint(e)})
		}
		r.close()
	}()
	s(r)
}

func (r *run) close() {
	if r.conn != nil {
		_ = r.conn.Close()
		r.conn = nil
	}
}

// reconnect drops the connection; the next question opens a fresh one.
func (r *run) reconnect() { r.close() }

func (r *run) dial() net.Conn {
	if r.conn == nil {
		c, err := connect(r.addr)
		if err != nil {
			panic(err)
		}
		r.conn = c
	}
	return r.conn
}

// connect dials an address within five seconds.
func connect(addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	return d.DialContext(context.Background(), "tcp", addr)
}

// topic gives a topic name that belongs to this scenario alone.
func (r *run) topic(suffix string) string { return "oracle-" + r.name + "-" + suffix }

// learn makes value appear as token in the answers from now on, in fields of
// the given name ("" = everywhere). Values are strings, integers, [16]byte ids.
func (r *run) learn(field string, value any, token string) {
	r.alias = append([]aliasOf{{field, render(value), "<" + token + ">"}}, r.alias...)
}

// unlearn lets values of the field appear as they are again.
func (r *run) unlearn(field string) {
	r.alias = slices.DeleteFunc(r.alias, func(a aliasOf) bool { return a.field == field })
}

func (r *run) rule(field string) *fieldRule {
	if r.rules == nil {
		r.rules = map[string]*fieldRule{}
	}
	if r.rules[field] == nil {
		r.rules[field] = &fieldRule{}
	}
	return r.rules[field]
}

// drop leaves fields of these names out of this scenario's answers.
func (r *run) drop(fields ...string) {
	for _, f := range fields {
		r.rule(f).drop = true
	}
}

// unordered sorts the lists in fields of these names: for answers whose order the protocol does not promise.
func (r *run) unordered(fields ...string) {
	for _, f := range fields {
		r.rule(f).unordered = true
	}
}

// hide makes every value of the field but -1, 0 and "" appear as token: for times.
func (r *run) hide(field, token string) { r.rule(field).token = token }

// number is hide with one token for each different value, in the order they are first seen: <token 1>, <token 2>. It
// is for ids that are drawn in the very answer that is recorded; learned values keep their own token.
func (r *run) number(field, token string) {
	r.rule(field).token, r.rule(field).number = token, true
}

// ask sends req at version v, records the normalised answer under step and returns the decoded response, or nil when
// the connection was closed or nothing came in time.
func (r *run) ask(step string, v int16, req kmsg.Request) kmsg.Response {
	req.SetVersion(v)
	body := req.AppendTo(nil)
	frame := r.header(req.Key(), v, req.IsFlexible())
	return r.exchange(step, req.Key(), v, append(frame, body...), req.ResponseKind())
}

// quiet is ask without recording a step: for set-up whose answer is not the point.
func (r *run) quiet(v int16, req kmsg.Request) kmsg.Response {
	n := len(r.steps)
	resp := r.ask("set-up", v, req)
	r.steps = r.steps[:n]
	return resp
}

// unrecorded leaves out what do asks: for set-up that helpers do which record.
func (r *run) unrecorded(do func()) {
	n := len(r.steps)
	do()
	r.steps = r.steps[:n]
}

func (r *run) header(key, v int16, flexible bool) []byte {
	r.corr++
	h := kbin.AppendInt16(nil, key)
	h = kbin.AppendInt16(h, v)
	h = kbin.AppendInt32(h, r.corr)
	h = kbin.AppendNullableString(h, kmsg.StringPtr("oracle"))
	if flexible {
		h = append(h, 0)
	}
	return h
}

// raw sends a frame body as it is (size added) and records the answer bytes decoded as resp at its version, or as hex
// when resp is nil.
func (r *run) raw(step string, frame []byte, resp kmsg.Response) kmsg.Response {
	var key, v int16 = -1, 0
	if resp != nil {
		key, v = resp.Key(), resp.GetVersion()
	}
	return r.exchange(step, key, v, frame, resp)
}

// bytesOnly sends bytes without adding a size and records what comes back within a second: closed, silent or hex.
func (r *run) bytesOnly(step string, b []byte) {
	r.close()
	c := r.dial()
	_, _ = c.Write(b) // a server that closes early is what the read finds
	_ = c.SetReadDeadline(time.Now().Add(time.Second))
	buf := make([]byte, 256)
	n, err := c.Read(buf)
	r.record(Step{Name: step, Request: cut(b), Answer: outcome(buf[:n], err)})
	r.close()
}

func outcome(b []byte, err error) any {
	var ne net.Error
	switch {
	case len(b) > 0:
		return map[string]any{"bytes": hex.EncodeToString(b)}
	case errors.As(err, &ne) && ne.Timeout():
		return map[string]any{"silent": true}
	default:
		return map[string]any{"closed": true}
	}
}

func (r *run) exchange(step string, key, v int16, frame []byte, resp kmsg.Response) kmsg.Response {
	c := r.dial()
	_ = c.SetDeadline(time.Now().Add(r.wait))
	st := Step{Name: step, Version: v, Request: cut(frame)}
	if key >= 0 {
		st.API = kmsg.NameForKey(key)
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
		st.Answer = map[string]any{"closed": true}
		r.record(st)
		r.close()
		return nil
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		st.Answer = outcome(nil, err)
		r.record(st)
		r.close()
		return nil
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		st.Answer = map[string]any{"cut": true}
		r.record(st)
		r.close()
		return nil
	}
	if resp == nil {
		st.Answer = map[string]any{"bytes": hex.EncodeToString(b)}
		r.record(st)
		return nil
	}
	body := b[4:]
	if resp.IsFlexible() && resp.Key() != 18 {
		body = body[1:]
	}
	// An ApiVersions request of an unknown version is answered in version 0.
	if resp.Key() == 18 && len(body) >= 2 && binary.BigEndian.Uint16(body) == 35 {
		resp.SetVersion(0)
	}
	if err := resp.ReadFrom(body); err != nil {
		st.Answer = map[string]any{"undecodable": err.Error(), "bytes": cut(b)}
		r.record(st)
		return nil
	}
	st.Answer = r.normal("", reflect.ValueOf(resp).Elem())
	r.record(st)
	return resp
}

func (r *run) record(s Step) { r.steps = append(r.steps, s) }

func cut(b []byte) string {
	if len(b) > 4096 {
		return hex.EncodeToString(b[:4096]) + "..."
	}
	return hex.EncodeToString(b)
}

func render(v any) string {
	switch v := v.(type) {
	case [16]byte:
		return hex.EncodeToString(v[:])
	case []byte:
		return base64.StdEncoding.EncodeToString(v)
	}
	return fmt.Sprint(v)
}

// Fields whose value says nothing about behaviour.
var volatile = map[string]bool{"ThrottleMillis": true, "UnknownTags": true, "Version": true, "Host": true, "Port": true,
	"ClusterID": true, "ClientHost": true, "CurrentLeaderTimestamp": true, "FinalizedFeaturesEpoch": true, "LogDir": true, "Dir": true}

// Free text: only whether it is there.
var text = map[string]bool{"ErrorMessage": true, "Documentation": true}

// normal turns a decoded kmsg value into plain JSON data, fields in name order, volatile ones out, learned values as tokens.
func (r *run) normal(field string, v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		return r.normal(field, v.Elem())
	case reflect.Struct:
		m := map[string]any{}
		t := v.Type()
		for i := 0; i < t.NumField(); i++ {
			n := t.Field(i).Name
			if !t.Field(i).IsExported() || volatile[n] || r.rules[n] != nil && r.rules[n].drop {
				continue
			}
			m[n] = r.normal(n, v.Field(i))
		}
		return m
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			if v.IsNil() {
				return nil
			}
			if field == "RecordBatches" || field == "Records" {
				return batches(v.Bytes())
			}
			return r.token(field, base64.StdEncoding.EncodeToString(v.Bytes()))
		}
		if v.IsNil() {
			return nil
		}
		l := make([]any, 0, v.Len())
		for i := 0; i < v.Len(); i++ {
			e := r.normal(field, v.Index(i))
			if m, ok := e.(map[string]any); ok && field == "Configs" && r.extra[fmt.Sprint(m["Name"])] {
				continue
			}
			l = append(l, e)
		}
		if rule := r.rules[field]; rule != nil && rule.unordered {
			sort.SliceStable(l, func(i, j int) bool { return identity(l[i]) < identity(l[j]) })
		}
		return l
	case reflect.Array:
		b := make([]byte, v.Len())
		for i := range b {
			b[i] = byte(v.Index(i).Uint())
		}
		if strings.Trim(string(b), "\x00") == "" {
			return "0"
		}
		return r.token(field, hex.EncodeToString(b))
	case reflect.String:
		s := v.String()
		if text[field] {
			return "<text>"
		}
		return r.token(field, s)
	case reflect.Bool:
		return v.Bool()
	default:
		s := fmt.Sprint(v.Interface())
		if v.CanInt() { // enumerations print as words
			s = fmt.Sprint(v.Int())
		}
		if t := r.token(field, s); t != s {
			return t
		}
		return json.Number(s)
	}
}

func (r *run) token(field, s string) string {
	for _, a := range r.alias {
		if (a.field == "" || a.field == field) && a.value == s {
			return a.token
		}
	}
	rule := r.rules[field]
	if rule == nil || rule.token == "" || s == "-1" || s == "0" || s == "" {
		return s
	}
	if !rule.number {
		return "<" + rule.token + ">"
	}
	rule.seen++
	token := fmt.Sprintf("%s %d", rule.token, rule.seen)
	r.learn(field, s, token)
	return "<" + token + ">"
}

// identity is what an element of an unordered list is sorted by: the fields that name it, then all of it.
func identity(v any) string {
	if m, ok := v.(map[string]any); ok {
		return fmt.Sprint(m["Topic"], m["TopicID"], m["Partition"], m["Name"], m)
	}
	return fmt.Sprint(v)
}

// batches summarises record batches: what a client relies on, not the checksum.
func batches(b []byte) any {
	l := []any{}
	for len(b) > 0 {
		n := 0
		if len(b) >= 61 {
			n = int(binary.BigEndian.Uint32(b[8:])) + 12
		}
		if n > len(b) || n < 61 {
			l = append(l, map[string]any{"incomplete": len(b)})
			break
		}
		l = append(l, map[string]any{
			"base": int64(binary.BigEndian.Uint64(b)), "epoch": int32(binary.BigEndian.Uint32(b[12:])), "magic": b[16],
			"attrs": binary.BigEndian.Uint16(b[21:]), "lastDelta": int32(binary.BigEndian.Uint32(b[23:])),
			"pidSet": int64(binary.BigEndian.Uint64(b[43:])) >= 0, "pepoch": int16(binary.BigEndian.Uint16(b[51:])),
			"seq": int32(binary.BigEndian.Uint32(b[53:])), "count": int32(binary.BigEndian.Uint32(b[57:])), "bytes": n})
		b = b[n:]
	}
	return l
}
