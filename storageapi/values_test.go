package storageapi

import (
	"encoding/json"
	"testing"
	"time"
)

func TestValues(t *testing.T) {
	for text, want := range map[string]string{`"a"`: "a", `12`: "12", `null`: "", `12345678901234567890`: "12345678901234567890"} {
		var id ID
		if err := json.Unmarshal([]byte(text), &id); err != nil || string(id) != want {
			t.Errorf("ID %s: %q, %v", text, id, err)
		}
	}
	for text, want := range map[string]IntID{`"12"`: 12, `12`: 12, `null`: 0, `""`: 0} {
		var id IntID
		if err := json.Unmarshal([]byte(text), &id); err != nil || id != want {
			t.Errorf("IntID %s: %d, %v", text, id, err)
		}
	}
	at := time.Date(2026, 3, 1, 10, 20, 30, 0, time.FixedZone("", 3600))
	for _, text := range []string{`"2026-03-01T10:20:30+0100"`, `"2026-03-01T10:20:30+01:00"`, `"2026-03-01T09:20:30Z"`, `"2026-03-01 09:20:30"`} {
		var got Time
		if err := json.Unmarshal([]byte(text), &got); err != nil || !got.Equal(at) {
			t.Errorf("time %s: %s, %v", text, got, err)
		}
	}
	if data, err := json.Marshal(Time{at}); err != nil || string(data) != `"2026-03-01T10:20:30+0100"` {
		t.Errorf("time %s, %v", data, err)
	}
	for text, n := range map[string]int{`[]`: 0, `null`: 0, `{}`: 0, ` [ ] `: 0, `{"a":"read"}`: 1} {
		var m Map[string]
		if err := json.Unmarshal([]byte(text), &m); err != nil || len(m) != n {
			t.Errorf("map %s: %v, %v", text, m, err)
		}
		var o Optional[map[string]string]
		if err := json.Unmarshal([]byte(text), &o); err != nil || len(o.Value0()) != n {
			t.Errorf("optional %s: %v, %v", text, o.Value, err)
		}
	}
	for _, bad := range []string{`{}`, `true`, `"x"`} {
		var id IntID
		if json.Unmarshal([]byte(bad), &id) == nil {
			t.Errorf("IntID took %s", bad)
		}
		var at Time
		if json.Unmarshal([]byte(bad), &at) == nil {
			t.Errorf("Time took %s", bad)
		}
	}
}

// Value0 is the value, or the zero one.
func (o Optional[V]) Value0() (v V) {
	if o.Value != nil {
		v = *o.Value
	}
	return v
}
