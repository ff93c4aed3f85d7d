package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"cordwood/configs"
)

// The exit codes. They are a contract: keep them for ever.
const (
	exitDone          = 0
	exitOther         = 1
	exitUsage         = 2
	exitUnreachable   = 3
	exitNotFound      = 4
	exitExists        = 5
	exitUnauthorised  = 6
	exitRefused       = 7
	exitPartial       = 8
	exitConfig        = 9
	exitUnhealthy     = 10
	exitLost          = 20
	exitOutOfOrder    = 21
	exitInterrupted   = 130
	exitCodeUndecided = -1
)

var errNotConfirmed = errors.New("not confirmed: nothing was done")

// failure is an error that knows its exit code and what to do about it.
type failure struct {
	code   int   // exitCodeUndecided: from err
	err    error // nil: the command has already printed what there is to say
	hint   string
	kafka  string // name of a Kafka error, "" to take it from err
	silent bool   // only the exit code is left to give
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

// exit ends a command with a code after it has printed its result.
func exit(code int) error { return &failure{code: code, silent: true} }

func usage(text string) *failure { return &failure{code: exitUsage, err: errors.New(text)} }

// refused is an answer with a Kafka error code and, where the node gave one, its sentence. nil for code 0.
func refused(what string, code int16, message *string) error {
	if code == 0 {
		return nil
	}
	ke := kerr.TypedErrorForCode(code)
	text := ke.Description
	if message != nil && *message != "" {
		text = *message
	}
	if what != "" {
		text = what + ": " + text
	}
	return &kafkaError{text: strings.TrimSuffix(text, "."), cause: ke}
}

// kafkaError is a node's refusal in its own words.
type kafkaError struct {
	text  string
	cause *kerr.Error
}

func (e *kafkaError) Error() string { return e.text }
func (e *kafkaError) Unwrap() error { return e.cause }

// report prints an error and gives the exit code.
func (a *app) report(err error, interrupted bool) int {
	if err == nil {
		return exitDone
	}
	if interrupted {
		return exitInterrupted
	}
	var f *failure
	if !errors.As(err, &f) {
		f = &failure{code: exitCodeUndecided, err: err}
	}
	if f.silent {
		return f.code
	}
	var faults configs.Faults
	if errors.As(err, &faults) {
		fmt.Fprintf(a.err, "%v\nerror: %s in the configuration\n", faults, count(len(faults), "fault"))
		return exitConfig
	}
	code, hint := f.code, f.hint
	if code == exitCodeUndecided {
		code = codeOf(err)
	}
	name := f.kafka
	var ke *kerr.Error
	if name == "" && errors.As(err, &ke) {
		name = kafkaName(ke)
	}
	text := describe(err)
	if name != "" {
		text += "   [" + name + "]"
	}
	fmt.Fprintln(a.err, "error:", text)
	if hint == "" {
		hint = hintFor(err, ke)
	}
	if hint != "" && !a.quiet {
		fmt.Fprintln(a.err, "hint: ", hint)
	}
	return code
}

// describe is the error's sentence; a bare Kafka error has its explanation instead of its name, which follows in
// brackets.
func describe(err error) string {
	text := err.Error()
	var ke *kerr.Error
	if errors.As(err, &ke) {
		text = strings.ReplaceAll(text, ke.Error(), strings.TrimSuffix(ke.Description, "."))
	}
	if errors.Is(err, context.DeadlineExceeded) && ke == nil && !strings.Contains(text, "timed out") {
		text = "timed out: " + text
	}
	return text
}

// codeOf finds the exit code of an error that did not bring one.
func codeOf(err error) int {
	var ke *kerr.Error
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &ke):
		if e, ok := errorNotes[kafkaName(ke)]; ok && e.exit != 0 {
			return e.exit
		}
		return exitOther
	case errors.Is(err, configs.ErrInvalid):
		return exitConfig
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &op), errors.As(err, &dns), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return exitUnreachable
	}
	return exitOther
}

func hintFor(err error, ke *kerr.Error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("nodes tell their clients to use the name %s, which does not resolve here; connect through a listener that advertises an address of this network", dns.Name)
	case ke != nil && errorNotes[kafkaName(ke)].remedy != "":
		return errorNotes[kafkaName(ke)].remedy
	case ke != nil:
		return "cordwood errors " + kafkaName(ke)
	}
	return ""
}

// count is "1 fault", "2 faults".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// codeIn is the code of the Kafka error that err wraps, 0 if it wraps none.
func codeIn(err error) int16 {
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return ke.Code
	}
	return 0
}
