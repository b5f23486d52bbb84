package natsdriver

import (
	"context"
	"fmt"
	"slices"
	"testing"
)

// A watch yields a value of each key before it says that these were all, even if values are replaced while it begins.
func TestWatchBeginsWithAllKeys(t *testing.T) {
	o := newOwners(t, 0, Options{Cluster: "watch"})
	if err := o.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	write := func(key string, n int) {
		for {
			v, err := o.Get(ctx, key)
			if err == nil {
				_, err = o.CompareAndSet(ctx, key, v.Version, fmt.Append(nil, n))
			}
			if err == nil || ctx.Err() != nil {
				return
			}
		}
	}
	keys := []string{"i.a", "i.b", "i.c"}
	for n, key := range keys {
		write(key, n)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			write(keys[n%2], n)
		}
	}()
	for n := range 300 {
		var got []string
		for v, err := range o.Watch(ctx, "i.") {
			if err != nil {
				t.Fatal(err)
			}
			if v.Version == 0 {
				break
			}
			got = append(got, v.Key)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, keys) {
			t.Fatalf("watch %d begins with %q, want %q", n, got, keys)
		}
	}
	cancel()
	<-done
}
