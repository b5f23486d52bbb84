// Package kept encodes the records that an engine keeps, which are the records that a sink has rejected, and the raw records of an archive.
package kept

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/forebay/forebay/driverkit/textcut"
	"github.com/forebay/forebay/mapping"
)

// Rejection says why a sink has rejected a record. It is stored with the record, and contains no value of a secret column, because the
// errors of a mapper contain none.
type Rejection struct {
	// Reason is the result of ReasonOf, Column the column that failed, and Message the error in words, up to 1 KiB.
	Reason  string `json:"reason"`
	Column  string `json:"column,omitempty"`
	Message string `json:"message"`
	// Mapping and Version are the name of the definition that has rejected it.
	Mapping string `json:"mapping"`
	Version int    `json:"version,omitempty"`
	// Failed counts the replays that have failed. TriedAt is the time of the last one.
	Failed  int       `json:"failed,omitempty"`
	TriedAt time.Time `json:"triedAt,omitzero"`
	// EditedAt and EditedBy are of the last edit. Earlier releases did not store them.
	EditedAt time.Time `json:"editedAt,omitzero"`
	EditedBy string    `json:"editedBy,omitempty"`
}

// maxMessage bounds Rejection.Message, in bytes.
const maxMessage = 1 << 10

// RejectionOf describes the error of a mapper. by is the definition that the mapper was compiled from.
func RejectionOf(err error, by DefinitionName) Rejection {
	r := Rejection{Reason: ReasonOf(err), Message: textcut.Short(err.Error(), maxMessage), Mapping: by.Mapping, Version: by.Version}
	if m, ok := errors.AsType[*mapping.Error](err); ok {
		r.Column = m.Column
	}
	return r
}

// Encode returns the stored form.
func (r Rejection) Encode() []byte {
	text, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("forebay: encode %T: %v", r, err)) // it holds texts, numbers and times of this age
	}
	return text
}

// TooLarge is the reason of a [mapping.RowTooLargeError].
const TooLarge = "rowTooLarge"

// Reasons is the number of reasons of a [mapping.Error], with the unknown one.
const Reasons = int(mapping.TooDeep) + 1

// ReasonOf returns the reason of a rejection: TooLarge, or the name of a [mapping.Reason].
func ReasonOf(err error) string {
	if _, ok := errors.AsType[*mapping.RowTooLargeError](err); ok {
		return TooLarge
	}
	if m, ok := errors.AsType[*mapping.Error](err); ok && int(m.Reason) < Reasons {
		return m.Reason.String()
	}
	return mapping.Reason(0).String()
}

// DefinitionName names the definition of a sink.
type DefinitionName struct {
	// Mapping is a fingerprint of the columns in eight digits.
	Mapping string
	// Version is the number of the definition, 0 for none.
	Version int
}

// NameOf names the definition with these columns and this number.
func NameOf(columns mapping.Columns, version int) DefinitionName {
	return DefinitionName{fingerprint(columns), version}
}

// Label returns the name as one text. The buffer stores it with rows, for rows that the target refuses.
func (d DefinitionName) Label() string {
	if d.Version == 0 {
		return d.Mapping
	}
	return fmt.Sprintf("%s.%d", d.Mapping, d.Version)
}

// ParseLabel reads a label. Rows of early releases have an empty one.
func ParseLabel(label string) (d DefinitionName) {
	mapping, version, _ := strings.Cut(label, ".")
	d.Mapping = mapping
	d.Version, _ = strconv.Atoi(version)
	return d
}

// fingerprint returns equal texts for equal columns.
func fingerprint(columns mapping.Columns) string {
	text, err := json.Marshal(columns)
	if err != nil {
		return "" // columns that were compiled have a JSON form
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:4])
}
