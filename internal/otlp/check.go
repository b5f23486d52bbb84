package otlp

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/forebay/forebay"
)

// ErrRequest matches every error of [Check] and [Decode]: the request can never be accepted as it is.
var ErrRequest = errors.New("the request is not a valid export")

// MaxNesting bounds how deeply lists and maps may be nested in the value of an attribute or a body.
const MaxNesting = 64

// TooExpensiveError refuses a request that would take too much memory after decoding.
type TooExpensiveError struct {
	// Limit is in bytes.
	Limit int
	// Copies is set if the limit was exceeded by the fields that records share, counted once for each record.
	Copies bool
}

func (e *TooExpensiveError) Error() string {
	if e.Copies {
		return fmt.Sprintf("the records would have more than %d bytes of copies of their resources, scopes, metrics and headers; "+
			"send smaller batches", e.Limit)
	}
	return fmt.Sprintf("the request would take more than %d bytes of memory when it is decoded; send smaller batches", e.Limit)
}

// Is reports whether target is [ErrRequest].
func (e *TooExpensiveError) Is(target error) bool { return target == ErrRequest }

var (
	errNesting   = fmt.Errorf("%w: a value is nested more than %d levels deep", ErrRequest, MaxNesting)
	errTruncated = fmt.Errorf("%w: it ends within a field", ErrRequest)
	errTrailing  = fmt.Errorf("%w: more follows its end, of which nothing would be stored", ErrRequest)
	errNoName    = fmt.Errorf("%w: a member of an object has no name", ErrRequest)
	errWireType  = fmt.Errorf("%w: a field has an unknown wire type", ErrRequest)
)

// Check bounds an export request before it is decoded, because two bytes can become a record of 300, the decoder follows any nesting
// on the stack, and each record gets a copy of its resource. headers is the size of the request headers. Each
// record may get a copy of them too. cost is about the memory of the decoded request in bytes. The error matches [ErrRequest]. It
// is a [*TooExpensiveError] above limit, or an error that names the malformed part.
func Check(signal forebay.Signal, enc Encoding, data []byte, headers, limit int) (cost int, err error) {
	if enc == JSON {
		cost, err = checkJSON(data, limit)
		cost += len(data) // for the copy that plain makes
	} else {
		c := checker{limit: limit}
		err = c.message(data, roots[signal], 0)
		cost = c.cost
		if err == nil {
			err = c.checkCopies(len(data), headers)
		}
	}
	return cost + len(data), err
}

// The messages of the protocol that contain messages.
const (
	leaf uint8 = iota
	logsRequest
	tracesRequest
	metricsRequest
	resourceLogs
	resourceSpans
	resourceMetrics
	resource
	entityRef
	scopeLogs
	scopeSpans
	scopeMetrics
	scope
	logRecord
	span
	spanEvent
	spanLink
	status
	metric
	numbers
	histograms
	exponentials
	summaries
	numberPoint
	histogramPoint
	exponentialPoint
	summaryPoint
	exemplar
	buckets
	quantile
	keyValue
	anyValue
	arrayValue
	mapValue
	messages
)

var roots = map[forebay.Signal]uint8{
	forebay.SignalLogs: logsRequest, forebay.SignalTraces: tracesRequest, forebay.SignalMetrics: metricsRequest,
}

// fields says which fields of a message are messages.
var fields = [messages][16]uint8{
	logsRequest:      {1: resourceLogs},
	tracesRequest:    {1: resourceSpans},
	metricsRequest:   {1: resourceMetrics},
	resourceLogs:     {1: resource, 2: scopeLogs},
	resourceSpans:    {1: resource, 2: scopeSpans},
	resourceMetrics:  {1: resource, 2: scopeMetrics},
	resource:         {1: keyValue, 3: entityRef},
	scopeLogs:        {1: scope, 2: logRecord},
	scopeSpans:       {1: scope, 2: span},
	scopeMetrics:     {1: scope, 2: metric},
	scope:            {3: keyValue},
	logRecord:        {5: anyValue, 6: keyValue},
	span:             {9: keyValue, 11: spanEvent, 13: spanLink, 15: status},
	spanEvent:        {3: keyValue},
	spanLink:         {4: keyValue},
	metric:           {5: numbers, 7: numbers, 9: histograms, 10: exponentials, 11: summaries, 12: keyValue},
	numbers:          {1: numberPoint},
	histograms:       {1: histogramPoint},
	exponentials:     {1: exponentialPoint},
	summaries:        {1: summaryPoint},
	numberPoint:      {5: exemplar, 7: keyValue},
	histogramPoint:   {8: exemplar, 9: keyValue},
	exponentialPoint: {1: keyValue, 8: buckets, 9: buckets, 11: exemplar},
	summaryPoint:     {6: quantile, 7: keyValue},
	exemplar:         {7: keyValue},
	keyValue:         {2: anyValue},
	anyValue:         {5: arrayValue, 6: mapValue},
	arrayValue:       {1: anyValue},
	mapValue:         {1: keyValue},
}

// oldScopes is the field number of scopes in an early version of the protocol. The decoder still accepts it.
const oldScopes = 1000

const (
	// messageCost bounds a decoded message with its place in the slice of its parent. keyValue and anyValue are smaller and
	// far more frequent.
	messageCost = 384
	valueCost   = 96
	// fieldCost is for a field that is not a message, packedCost for a byte of a packed field, which can be a number
	// by itself.
	fieldCost  = 24
	packedCost = 16
)

type checker struct {
	cost, limit int
	// records counts records. copies are the bytes that records share, once for each record.
	records, copies int
}

// A request may have freeCopies bytes of copies, plus copiesPerByte for each of its bytes. Telemetry of many small records
// with a large resource stays well below. What exceeds it turns kilobytes into gigabytes of rows.
const (
	freeCopies    = 128 << 20
	copiesPerByte = 16
)

func (c *checker) checkCopies(size, headers int) error {
	if limit := freeCopies + copiesPerByte*size; c.copies+c.records*headers > limit {
		return &TooExpensiveError{Limit: limit, Copies: true}
	}
	return nil
}

// isRecord and isShared mark the messages that become records, and the messages that each record copies.
var (
	isRecord = [messages]bool{
		logRecord: true, span: true, numberPoint: true, histogramPoint: true, exponentialPoint: true, summaryPoint: true,
	}
	isShared = [messages]bool{resource: true, scope: true}
)

// message walks the fields of one message. Its recursion is bounded by the nesting of values.
func (c *checker) message(b []byte, kind uint8, nesting int) error {
	children := fields[kind]
	before, shared := c.records, 0
	if isRecord[kind] {
		c.records++
	}
	if kind == anyValue {
		if nesting++; nesting > MaxNesting {
			return errNesting
		}
	}
	for i := 0; i < len(b); {
		tag := uint64(b[i])
		i++
		if tag >= 0x80 {
			v, n := binary.Uvarint(b[i-1:])
			if n <= 0 {
				return errTruncated
			}
			tag = v
			i += n - 1
		}
		c.cost += fieldCost
		switch tag & 7 {
		case 0:
			for i < len(b) && b[i] >= 0x80 {
				i++
			}
			i++
		case 1:
			i += 8
		case 5:
			i += 4
		case 2:
			if i >= len(b) {
				return errTruncated
			}
			size := uint64(b[i])
			i++
			if size >= 0x80 {
				v, n := binary.Uvarint(b[i-1:])
				if n <= 0 {
					return errTruncated
				}
				size = v
				i += n - 1
			}
			if size > uint64(len(b)-i) {
				return errTruncated
			}
			end := i + int(size)
			child := leaf
			// The decoder uses the lower 32 bits as the number, so one field can have several tags.
			switch field := uint32(tag >> 3); {
			case field < uint32(len(children)):
				child = children[field]
			case field == oldScopes && kind >= resourceLogs && kind <= resourceMetrics:
				child = children[2]
			}
			if isShared[child] || kind == metric && (child == leaf || child == keyValue) {
				shared += int(size)
			}
			switch child {
			case leaf:
				if kind == buckets || kind == histogramPoint {
					c.cost += packedCost * int(size)
				}
			case keyValue, anyValue:
				c.cost += valueCost
			default:
				c.cost += messageCost
			}
			if c.cost > c.limit {
				return &TooExpensiveError{Limit: c.limit}
			}
			if child != leaf {
				if err := c.message(b[i:end], child, nesting); err != nil {
					return err
				}
			}
			i = end
		default:
			return errWireType
		}
		if i > len(b) {
			return errTruncated
		}
	}
	if c.cost > c.limit {
		return &TooExpensiveError{Limit: c.limit}
	}
	c.copies += shared * (c.records - before)
	return nil
}

// maxBrackets bounds the open brackets of JSON: four for each level of a value, plus the brackets of the messages around it.
const maxBrackets = 4*MaxNesting + 24

// checkJSON counts brackets and commas, and refuses input that the decoder misreads: it stops at the end of the first value,
// takes a member without a name for the end of an object, and is lenient between members. The rest would be lost or read in
// the wrong place.
func checkJSON(b []byte, limit int) (cost int, err error) {
	depth := 0
	ended := false
	for i := 0; i < len(b); i++ {
		if ended {
			switch b[i] {
			case ' ', '\t', '\r', '\n':
				continue
			}
			return cost, errTrailing
		}
		switch b[i] {
		case '"':
			begin := i + 1
			for i++; i < len(b) && b[i] != '"'; i++ {
				switch b[i] {
				case '\\':
					i++
				case 'e', 'E':
					cost += exponent(b, i)
				}
			}
			if i == begin && isName(b[i:]) {
				return cost, errNoName
			}
		case '{', '[':
			cost += messageCost
			if depth++; depth > maxBrackets {
				return cost, errNesting
			}
		case '}', ']':
			depth--
			ended = depth == 0
		case ',':
			cost += fieldCost
		case 'e', 'E':
			cost += exponent(b, i)
		}
		if cost > limit {
			return cost, &TooExpensiveError{Limit: limit}
		}
	}
	if !json.Valid(b) {
		var v any
		var syntax *json.SyntaxError
		if errors.As(json.Unmarshal(b, &v), &syntax) { // a syntax error, found before v is set
			what := "invalid character"
			if syntax.Offset >= int64(len(b)) {
				what = "unexpected end"
			}
			return cost, fmt.Errorf("%w: it is not JSON, %s at byte %d", ErrRequest, what, syntax.Offset)
		}
		return cost, fmt.Errorf("%w: it is not JSON", ErrRequest)
	}
	return cost, nil
}

// exponent returns the cost of an e beyond its byte: after a digit it may belong to a number, which plain writes with as
// many digits as an integer can have.
func exponent(b []byte, at int) int {
	if at > 0 && b[at-1] >= '0' && b[at-1] <= '9' {
		return 2 * len("18446744073709551615")
	}
	return 0
}

// bracketsAbove reports whether valid JSON has more than depth brackets open somewhere. A level of a value has at least
// three, so up to three times MaxNesting brackets are never nested too deeply.
func bracketsAbove(b []byte, depth int) bool {
	open := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			for i++; i < len(b) && b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if open++; open > depth {
				return true
			}
		case '}', ']':
			open--
		}
	}
	return false
}

// isName reports whether the string that ends at the first byte of b is the name of a member.
func isName(b []byte) bool {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case ' ', '\t', '\r', '\n':
			continue
		}
		return b[i] == ':'
	}
	return false
}
