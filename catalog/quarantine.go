package catalog

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/forebay/forebay/buffer"
)

// QuarantineBounds are [buffer.QuarantineBounds] whose JSON has the age as a text such as "720h0m0s".
type QuarantineBounds buffer.QuarantineBounds

// boundsRecord is the JSON of QuarantineBounds.
type boundsRecord struct {
	MaxBytes   int64  `json:"maxBytes,omitempty"`
	MaxRecords int    `json:"maxRecords,omitempty"`
	MaxAge     string `json:"maxAge,omitempty"`
	DropOldest bool   `json:"dropOldest,omitempty"`
	HoldFiles  bool   `json:"holdFiles,omitempty"`
}

// MarshalJSON implements [json.Marshaler]. Fields that have their defaults are left out.
func (q QuarantineBounds) MarshalJSON() ([]byte, error) {
	r := boundsRecord{MaxBytes: q.MaxBytes, MaxRecords: q.MaxRecords, DropOldest: q.DropOldest, HoldFiles: q.HoldFiles}
	if q.MaxAge != 0 {
		r.MaxAge = q.MaxAge.String()
	}
	return json.Marshal(r)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (q *QuarantineBounds) UnmarshalJSON(text []byte) error {
	var r boundsRecord
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	age := time.Duration(0)
	if r.MaxAge != "" {
		var err error
		if age, err = time.ParseDuration(r.MaxAge); err != nil {
			return fmt.Errorf("maxAge: %w", err)
		}
	}
	*q = QuarantineBounds{MaxBytes: r.MaxBytes, MaxRecords: r.MaxRecords, MaxAge: age, DropOldest: r.DropOldest, HoldFiles: r.HoldFiles}
	return nil
}
