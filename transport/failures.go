package transport

import (
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// failures counts the errors of an answer.
func (m *metrics) failures(key int16, r *Response) {
	count := func(code int16) {
		if code != 0 {
			m.errors.WithLabelValues(kmsg.NameForKey(key), errorName(code)).Inc()
		}
	}
	for _, code := range r.Failed {
		count(code)
	}
	switch body := r.Body.(type) {
	case nil:
	case *kmsg.ProduceResponse: // the only hot one
		for i := range body.Topics {
			for j := range body.Topics[i].Partitions {
				count(body.Topics[i].Partitions[j].ErrorCode)
			}
		}
	default:
		eachError(reflect.ValueOf(body), count)
	}
}

// eachError finds every error code in an answer: fields of that name, at any depth.
func eachError(v reflect.Value, f func(code int16)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachError(v.Elem(), f)
		}
	case reflect.Slice:
		if k := v.Type().Elem().Kind(); k != reflect.Struct && k != reflect.Pointer {
			return
		}
		for i := range v.Len() {
			eachError(v.Index(i), f)
		}
	case reflect.Struct:
		t := v.Type()
		for i := range t.NumField() {
			switch field := t.Field(i); {
			case !field.IsExported():
			case field.Name == "ErrorCode" && field.Type.Kind() == reflect.Int16:
				f(int16(v.Field(i).Int()))
			default:
				eachError(v.Field(i), f)
			}
		}
	}
}

// errorName is Kafka's name of an error; codes that Kafka does not know share one.
func errorName(code int16) string {
	if e := kerr.TypedErrorForCode(code); e != nil {
		return e.Message
	}
	return "unknown"
}
