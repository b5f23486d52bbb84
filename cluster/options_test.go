package cluster

import (
	"log/slog"
	"reflect"
	"testing"
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer/buffertest"
)

// The options that a node and its instance have in common reach the instance.
func TestOptionsReachTheInstance(t *testing.T) {
	node := reflect.ValueOf(Options{
		Node: "a", Lease: time.Minute, CheckpointBytes: 7, Checkpoints: buffertest.NewMemory(), Engine: forebay.Options{Staging: buffertest.NewMemory()},
		Logger: slog.New(slog.DiscardHandler),
	})
	instance := reflect.ValueOf(node.Interface().(Options).instance())
	common := 0
	for i := range instance.NumField() {
		name := instance.Type().Field(i).Name
		want := node.FieldByName(name)
		if !want.IsValid() {
			continue
		}
		common++
		if want.IsZero() {
			t.Errorf("the test does not set %s", name)
		}
		if got := instance.Field(i); !reflect.DeepEqual(got.Interface(), want.Interface()) {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	if common < 6 {
		t.Errorf("%d options are common, want at least 6", common)
	}
}
