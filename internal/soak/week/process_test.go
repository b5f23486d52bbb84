package main

import (
	"testing"
	"testing/synctest"
	"time"
)

// A fault names the instance of its node, even if the node was too busy to respond to the last readiness check.
func TestInstanceOfABusyNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &process{changed: make(chan struct{})}
		for i, s := range []readiness{{}, {Instance: "one"}, {Instance: "two", Ready: true}} {
			time.AfterFunc(time.Duration(i)*time.Second, func() { p.set(func() { p.status = s }) })
		}
		if instance, err := p.instance(t.Context()); instance != "two" || err != nil {
			t.Errorf("got %q, %v, want two", instance, err)
		}
	})
}
