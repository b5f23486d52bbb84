// Package zerotest calls methods with zero values.
package zerotest

import (
	"context"
	"fmt"
	"reflect"
	"runtime/debug"
	"slices"
	"testing"
	"time"
)

// Calls calls each exported method of a receiver, except some, with zero values. It calls each method with nil pointers and slices and with pointers to
// zero values, and in both cases with empty strings and with names. A panic fails the test.
func Calls(t *testing.T, receiver any, names []string, except ...string) {
	v := reflect.ValueOf(receiver)
	for i := range v.NumMethod() {
		m := v.Type().Method(i)
		if slices.Contains(except, m.Name) {
			continue
		}
		for _, named := range []bool{false, true} {
			for _, pointed := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s.%s/named=%t/pointed=%t", v.Type(), m.Name, named, pointed), func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond) // some calls wait until it ends
					defer cancel()
					args := arguments(ctx, v.Method(i).Type(), names, named, pointed)
					defer func() {
						if p := recover(); p != nil {
							t.Errorf("%s panics with %v, want an error or nothing: %v\n%s", m.Name, args, p, debug.Stack())
						}
					}()
					for _, out := range call(v.Method(i), args) {
						drain(out)
					}
				})
			}
		}
	}
}

func call(method reflect.Value, args []reflect.Value) []reflect.Value {
	if method.Type().IsVariadic() {
		return method.CallSlice(args)
	}
	return method.Call(args)
}

func arguments(ctx context.Context, method reflect.Type, names []string, named, pointed bool) (args []reflect.Value) {
	for i := range method.NumIn() {
		in := method.In(i)
		arg := reflect.New(in).Elem()
		switch {
		case in == reflect.TypeFor[context.Context]():
			arg.Set(reflect.ValueOf(ctx))
		case in.Kind() == reflect.String && named && len(names) > 0:
			arg.SetString(names[0])
			names = names[1:]
		case in.Kind() == reflect.Func: // a caller that passes none has made a different mistake
			arg.Set(reflect.MakeFunc(in, func([]reflect.Value) (out []reflect.Value) {
				for o := range in.NumOut() {
					out = append(out, reflect.Zero(in.Out(o)))
				}
				return out
			}))
		case in.Kind() == reflect.Pointer && pointed:
			arg.Set(reflect.New(in.Elem()))
		case in.Kind() == reflect.Slice && pointed:
			arg.Set(reflect.MakeSlice(in, 1, 1))
		}
		args = append(args, arg)
	}
	return args
}

// drain iterates the iterators that a call returned.
func drain(out reflect.Value) {
	switch {
	case out.Type().CanSeq2() && out.Kind() == reflect.Func && !out.IsNil():
		for range out.Seq2() {
		}
	case out.Type().CanSeq() && out.Kind() == reflect.Func && !out.IsNil():
		for range out.Seq() {
		}
	}
}
