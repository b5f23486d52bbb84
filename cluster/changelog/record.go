package changelog

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Chain returns the chain of a part of a batch, a hash over the chain before it, its number, its part and its data. The first
// record of a log follows on 0, a part on the part before, and the first part on the last batch that counts. So a reader
// sees a changed, missing or foreign record even where positions and numbers fit.
//
// The epoch does not matter. A batch that is appended again under the next epoch keeps its chain. So a store can write the chain
// into its next batch before the log has responded, and two histories with equal chains are equal.
func Chain(before uint64, r Record) uint64 {
	var head [32]byte
	binary.LittleEndian.PutUint64(head[0:], before)
	binary.LittleEndian.PutUint64(head[8:], r.Number)
	binary.LittleEndian.PutUint64(head[16:], uint64(r.Part))
	binary.LittleEndian.PutUint64(head[24:], uint64(r.Parts))
	var d xxhash.Digest
	d.Reset()
	_, _ = d.Write(head[:]) // never fails
	_, _ = d.Write(r.Data)
	return d.Sum64()
}

// cut appends the parts of a batch to dst, with their chains. before is the chain up to it.
func cut(dst []Record, number uint64, data []byte, before uint64) []Record {
	parts := max(1, (len(data)+PartBytes-1)/PartBytes)
	for part := 1; part <= parts; part++ {
		n := min(len(data), PartBytes)
		r := Record{Kind: Batch, Number: number, Part: part, Parts: parts, Data: data[:n]}
		r.Chain = Chain(before, r)
		before, data = r.Chain, data[n:]
		dst = append(dst, r)
	}
	return dst
}

// The fields of a record as text. A driver may keep them as the headers of a message. The data is its body.
const (
	fieldKind   = "Fb-K"
	fieldEpoch  = "Fb-E"
	fieldNumber = "Fb-N"
	fieldPart   = "Fb-P" // "1/3", batches only
	fieldChain  = "Fb-C" // 16 hexadecimal digits, batches only
	fieldNode   = "Fb-Node"
	// fieldFormat is the format of the record. It is missing in format 1, which this release writes, and the newest that it reads. What an
	// older release must not take for damage raises it, and the format of [Owner] with it, so that an older node does not even adopt.
	fieldFormat = "Fb-F"
)

// Fields calls set for each field of r as text, but not for its data.
func (r Record) Fields(set func(key, value string)) {
	set(fieldKind, string(rune(r.Kind)))
	set(fieldEpoch, strconv.FormatUint(r.Epoch, 10))
	set(fieldNumber, strconv.FormatUint(r.Number, 10))
	set(fieldNode, r.Node)
	if r.Kind == Batch {
		set(fieldPart, strconv.Itoa(r.Part)+"/"+strconv.Itoa(r.Parts))
		set(fieldChain, fmt.Sprintf("%016x", r.Chain))
	}
}

// ParseFields is the inverse of [Record.Fields]. It accepts only what Fields writes. The function get returns "" for a field that is missing.
// Of a record of a later format it reads nothing else, and the error is [ErrNewer].
func ParseFields(get func(key string) string) (Record, error) {
	var r Record
	var err error
	if text := get(fieldFormat); text != "" {
		format, err := parseNumber(fieldFormat, text)
		if err != nil || format < 2 {
			return Record{}, fieldError(fieldFormat, text)
		}
		return Record{}, fmt.Errorf("%w: a record has the format %d", ErrNewer, format)
	}
	switch kind := get(fieldKind); kind {
	case "o", "b", "c", "z":
		r.Kind = Kind(kind[0])
	default:
		return Record{}, fieldError(fieldKind, kind)
	}
	if r.Epoch, err = parseNumber(fieldEpoch, get(fieldEpoch)); err != nil {
		return Record{}, err
	}
	if r.Number, err = parseNumber(fieldNumber, get(fieldNumber)); err != nil {
		return Record{}, err
	}
	if r.Node = get(fieldNode); !validNode(r.Node) {
		return Record{}, fieldError(fieldNode, r.Node)
	}
	part, chain := get(fieldPart), get(fieldChain)
	if r.Kind != Batch {
		if part != "" || chain != "" {
			return Record{}, fmt.Errorf("a record of kind %c has the field %s or %s of a batch", r.Kind, fieldPart, fieldChain)
		}
		return r, nil
	}
	one, all, _ := strings.Cut(part, "/")
	r.Part, _ = strconv.Atoi(one)
	r.Parts, _ = strconv.Atoi(all)
	if r.Part < 1 || r.Part > r.Parts || part != strconv.Itoa(r.Part)+"/"+strconv.Itoa(r.Parts) {
		return Record{}, fieldError(fieldPart, part)
	}
	if r.Chain, err = strconv.ParseUint(chain, 16, 64); err != nil || chain != fmt.Sprintf("%016x", r.Chain) {
		return Record{}, fieldError(fieldChain, chain)
	}
	return r, nil
}

func parseNumber(key, value string) (uint64, error) {
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil || value != strconv.FormatUint(n, 10) {
		return 0, fieldError(key, value)
	}
	return n, nil
}

func fieldError(key, value string) error {
	return fmt.Errorf("the field %s of a record is %q", key, value)
}

// maxNode is the longest name of a node.
const maxNode = 128

// validNode reports whether a name can be a header: 1 to maxNode printable ASCII characters without spaces.
func validNode(name string) bool {
	return name != "" && len(name) <= maxNode && strings.IndexFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) < 0
}
