package buffer

import (
	"fmt"
	"testing"
	"time"
)

func TestPacesOfOldFailuresAreForgotten(t *testing.T) {
	var l probeQueues
	l.reset()
	now := time.Unix(1_700_000_000, 0)
	first := queueKey{stepImport, "sink", "table"}
	if _, _, ok := l.speak(first, "it is down", now); !ok {
		t.Fatal("the first failure has no line in the log")
	}
	if _, _, ok := l.speak(first, "it is down", now.Add(time.Second)); ok {
		t.Error("a second failure has a line at once")
	}
	for i := range 10_000 {
		now = now.Add(time.Minute)
		if _, _, ok := l.speak(queueKey{stepImport, fmt.Sprint("sink ", i), "table"}, "it is down", now); !ok {
			t.Fatalf("the first failure of sink %d has no line in the log", i)
		}
	}
	if n := len(l.paces); n > 100 {
		t.Errorf("%d paces are kept, want only the paces of the last hour", n)
	}
}
