package otlptest

import (
	"runtime"
	"testing"
)

// A gRPC call allocates no more in addition to its records than an HTTP request. Both allocate about as much. The
// comparison does not depend on the machine, and shows allocations that crept into a call unnoticed.
func TestAllocationsPerCall(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	data, err := encoded(1, 150)
	if err != nil {
		t.Fatal(err)
	}
	const calls = 1000
	perCall := func(protocol string) float64 {
		_, address := serve(t, protocol, fewColumns)
		s, err := newSender(protocol, address, data, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		send := func() {
			left := calls
			if err := s.run(func() bool { left--; return left >= 0 }); err != nil {
				t.Fatal(err)
			}
		}
		send() // fills the pools
		least := 0.0
		for i := range 3 { // the fewest, because pools are emptied at times
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			send()
			runtime.ReadMemStats(&after)
			if n := float64(after.Mallocs-before.Mallocs) / calls; i == 0 || n < least {
				least = n
			}
		}
		return least
	}
	http, grpc := perCall("http"), perCall("grpc")
	t.Logf("HTTP %.1f, gRPC %.1f", http, grpc)
	if grpc > http+33 {
		t.Errorf("a call allocates %.1f times, a request over HTTP %.1f", grpc, http)
	}
}
