package storageapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"time"
)

// Secret is a token or a part of a credential. It prints and logs as "[secret]". string(s) and its JSON form are the value,
// because requests contain it.
type Secret string

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return "[secret]"
}

// GoString hides the value.
func (s Secret) GoString() string { return strconv.Quote(s.String()) }

// LogValue hides the value.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// ID is an identifier that the platform writes as a string or a number, depending on the call.
type ID string

// UnmarshalJSON accepts a string, a number and null, which is the empty id.
func (id *ID) UnmarshalJSON(data []byte) error {
	switch {
	case bytes.Equal(data, []byte("null")):
		*id = ""
		return nil
	case len(data) > 0 && data[0] == '"':
		return json.Unmarshal(data, (*string)(id))
	}
	var n json.Number
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("id: want a string or a number, got %.40s", data)
	}
	*id = ID(n)
	return nil
}

// IntID is an identifier that is a number, though some calls give it as a string.
type IntID int64

// String returns the decimal form.
func (id IntID) String() string { return strconv.FormatInt(int64(id), 10) }

// UnmarshalJSON accepts a number, a string of digits and null, which is 0.
func (id *IntID) UnmarshalJSON(data []byte) error {
	var text ID
	if err := text.UnmarshalJSON(data); err != nil {
		return err
	}
	if text == "" {
		*id = 0
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return fmt.Errorf("id: want a whole number, got %.40q", string(text))
	}
	*id = IntID(n)
	return nil
}

// TimeFormat is how the Storage API writes a time. The offset has no colon.
const TimeFormat = "2006-01-02T15:04:05-0700"

// Time is a time of the API, in seconds. It reads each of the forms in use and writes [TimeFormat]. The zero value is
// null.
type Time struct{ time.Time }

var timeLayouts = []string{TimeFormat, time.RFC3339Nano, "2006-01-02 15:04:05"}

// UnmarshalJSON accepts an offset with or without a colon, "YYYY-MM-DD HH:MM:SS" in UTC, and null or "".
func (t *Time) UnmarshalJSON(data []byte) error {
	var text *string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("time: want a string, got %.40s", data)
	}
	*t = Time{}
	if text == nil || *text == "" {
		return nil
	}
	for _, layout := range timeLayouts {
		if parsed, err := time.Parse(layout, *text); err == nil {
			t.Time = parsed
			return nil
		}
	}
	return fmt.Errorf("time: %.60q is in none of the known forms", *text)
}

// MarshalJSON writes TimeFormat, or null for the zero time.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(t.Format(`"` + TimeFormat + `"`)), nil
}

// Map is an object of the API with names chosen by users. The platform often writes an empty one as []: Map reads [] and null as
// empty, and writes an empty map as [].
type Map[V any] map[string]V

// UnmarshalJSON accepts an object, an empty array and null.
func (m *Map[V]) UnmarshalJSON(data []byte) error {
	*m = nil
	if isEmpty(data) {
		return nil
	}
	return json.Unmarshal(data, (*map[string]V)(m))
}

// MarshalJSON writes an empty map as [].
func (m Map[V]) MarshalJSON() ([]byte, error) {
	if len(m) == 0 {
		return []byte("[]"), nil
	}
	return json.Marshal(map[string]V(m))
}

// isEmpty reports whether data is null or an empty array.
func isEmpty(data []byte) bool {
	data = bytes.TrimSpace(data)
	if bytes.Equal(data, []byte("null")) || len(data) == 0 {
		return true
	}
	return data[0] == '[' && data[len(data)-1] == ']' && len(bytes.TrimSpace(data[1:len(data)-1])) == 0
}

// Optional is a part of a response that may be missing. Missing, null and [] mean the same: Value is nil. It writes a missing
// value as [].
type Optional[V any] struct{ Value *V }

// Some returns a present value.
func Some[V any](v V) Optional[V] { return Optional[V]{&v} }

// UnmarshalJSON accepts an object, an empty array and null.
func (o *Optional[V]) UnmarshalJSON(data []byte) error {
	o.Value = nil
	if isEmpty(data) {
		return nil
	}
	o.Value = new(V)
	return json.Unmarshal(data, o.Value)
}

// MarshalJSON writes an absent value as [].
func (o Optional[V]) MarshalJSON() ([]byte, error) {
	if o.Value == nil {
		return []byte("[]"), nil
	}
	return json.Marshal(o.Value)
}
